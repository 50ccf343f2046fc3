/** What `new Worker` is given, beside what the thread is told. */
export interface ThreadModule {
  readonly file: URL | string;
  readonly options: { readonly eval?: true; readonly execArgv?: string[] };
}

/**
 * Names a module of this program for a thread that runs it, compiled or from source. From source, the thread registers tsx itself:
 * Node 20 does not pass `--import tsx` on to threads.
 * @param name without extension, in the folder of `besideUrl`
 */
export function threadModule(name: string, besideUrl: string): ThreadModule {
  if (!besideUrl.endsWith(".ts")) return { file: new URL(`./${name}.js`, besideUrl), options: {} };
  const url = new URL(`./${name}.ts`, besideUrl).href;
  const code = `import("tsx/esm/api").then((tsx) => { tsx.register(); return import(${JSON.stringify(url)}); })`;
  return { file: code, options: { eval: true, execArgv: [] } };
}
