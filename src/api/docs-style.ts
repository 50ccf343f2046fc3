/** The look of `/docs`: no script, no request to anywhere else. */
export const DOCS_STYLE = `
:root { color-scheme: light dark; --bg:#fff; --fg:#1c2430; --dim:#5d6b7e; --line:#e3e8ef; --card:#f7f9fc; --accent:#3454d1; --code:#eef2f8;
  --get:#1769aa; --post:#1b7f4b; --patch:#9a6400; --delete:#b3261e; }
@media (prefers-color-scheme: dark) { :root { --bg:#11151c; --fg:#e4e9f1; --dim:#93a1b5; --line:#2a3342; --card:#181e28; --accent:#8ea6ff; --code:#202836;
  --get:#6cb6ff; --post:#5fd39a; --patch:#f0b95a; --delete:#ff8a80; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
body { margin:0; background:var(--bg); color:var(--fg); font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; }
a { color:var(--accent); text-decoration:none; } a:hover, main a { text-decoration:underline; }
code, pre { font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; }
code { background:var(--code); border-radius:4px; padding:.1em .35em; }
pre { background:var(--code); border-radius:8px; padding:.8rem 1rem; overflow-x:auto; margin:.5rem 0 0; }
.page { display:grid; grid-template-columns:270px minmax(0,1fr); max-width:1240px; margin:0 auto; }
nav { position:sticky; top:0; height:100vh; overflow-y:auto; padding:1.6rem 1rem; border-right:1px solid var(--line); font-size:14px; }
nav h2 { font-size:12px; letter-spacing:.06em; text-transform:uppercase; color:var(--dim); margin:1.2rem 0 .3rem; }
nav ul { list-style:none; margin:0; padding:0; } nav a { display:block; padding:.18rem .4rem; border-radius:6px; color:var(--fg); }
nav a:hover { background:var(--card); text-decoration:none; }
main { padding:2rem 2.2rem 5rem; }
h1 { font-size:2rem; line-height:1.2; margin:0 0 .3rem; } h1 small { font-size:.9rem; font-weight:500; color:var(--dim); }
main > section > h2 { margin:2.8rem 0 .2rem; padding-bottom:.3rem; border-bottom:1px solid var(--line); }
.dim { color:var(--dim); }
article { background:var(--card); border:1px solid var(--line); border-radius:12px; padding:1.1rem 1.3rem; margin:1.1rem 0; }
article h3 { margin:0; font-size:1.05rem; } article p { margin:.5rem 0; }
.line { display:flex; flex-wrap:wrap; gap:.6rem; align-items:center; margin:.35rem 0 .1rem; }
.line code { font-size:14px; background:none; padding:0; overflow-wrap:anywhere; }
.verb { font:600 12px/1 ui-monospace,monospace; color:#fff; border-radius:6px; padding:.32rem .5rem; text-transform:uppercase; }
@media (prefers-color-scheme: dark) { .verb { color:#11151c; } }
.get { background:var(--get); } .post { background:var(--post); } .patch { background:var(--patch); } .delete { background:var(--delete); }
h4 { margin:1rem 0 .2rem; font-size:.85rem; color:var(--dim); text-transform:uppercase; letter-spacing:.05em; }
.scroll { overflow-x:auto; }
table { border-collapse:collapse; width:100%; font-size:14px; } td,th { text-align:left; vertical-align:top; padding:.35rem .6rem .35rem 0; border-bottom:1px solid var(--line); }
th { font-weight:600; color:var(--dim); } td:first-child { white-space:nowrap; } td p { margin:0; }
.required { color:var(--delete); font-size:12px; }
summary { cursor:pointer; color:var(--accent); font-size:14px; margin-top:.6rem; }
@media (max-width: 820px) { .page { display:block; } nav { position:static; height:auto; border-right:0; border-bottom:1px solid var(--line); } main { padding:1.4rem 1rem 4rem; }
  table, tbody, tr, td { display:block; } tr { border-bottom:1px solid var(--line); padding:.35rem 0; } td { border:0; padding:.1rem 0; overflow-wrap:anywhere; } }
`;
