import { connectClickHouse } from "../src/adapters/clickhouse/connect.ts";
import { startEmbeddedClickHouse } from "../src/embedded/chdb/start-embedded-clickhouse.ts";
import { makeSilentLogger } from "../test/support/silent-logger.ts";
await using e = await startEmbeddedClickHouse({
  dataDir: "/tmp/zzproj",
  logger: makeSilentLogger(),
});
const c = connectClickHouse(e.url);
const rows = async (q: string) => (await c.query({ query: q, format: "JSONEachRow" })).json<any>();
const cmd = (query: string) => c.command({ query });
console.log(await rows("SELECT version() v"));
await cmd("DROP TABLE IF EXISTS t");
await cmd(`CREATE TABLE t (org_id LowCardinality(String), received_at DateTime64(3,'UTC'), id String, endpoint_id LowCardinality(String), provider LowCardinality(String), signature_valid Bool,
 PROJECTION facets (SELECT org_id, endpoint_id, provider, signature_valid, count() GROUP BY org_id, endpoint_id, provider, signature_valid))
 ENGINE=ReplacingMergeTree PARTITION BY toYYYYMMDD(received_at) ORDER BY (org_id, received_at, id) SETTINGS index_granularity=2048, deduplicate_merge_projection_mode='rebuild'`);
for (let d = 0; d < 10; d++)
  await cmd(
    `INSERT INTO t SELECT 'org_'||toString(if(number%2=0,0,number%1000)), toDateTime64('2026-10-01 00:00:00',3,'UTC')+ ${d}*86400 + number*0.17, toString(number)||'_${d}', 'ep_'||toString(number%100), ['stripe','github','shopify','twilio','linear'][1+number%5], number%7!=0 FROM numbers(500000)`,
  );
await cmd("OPTIMIZE TABLE t FINAL");
await cmd(`INSERT INTO t SELECT * FROM t WHERE received_at >= '2026-10-10 00:00:00' LIMIT 1000`);
console.log(
  await rows(
    "SELECT partition_id, count() n, sum(rows) r FROM system.parts WHERE active AND table='t' GROUP BY 1 ORDER BY 1",
  ),
);
const time = async (name: string, q: string, n = 15) => {
  const t: number[] = [];
  let r: any;
  for (let i = 0; i < n + 2; i++) {
    const s = performance.now();
    r = await rows(q);
    t.push(performance.now() - s);
  }
  t.splice(0, 2);
  t.sort((a, b) => a - b);
  console.log(
    name.padEnd(40),
    t[Math.floor(n / 2)]!.toFixed(1),
    t[Math.ceil(n * 0.95) - 1]!.toFixed(1),
    r.reduce((a: number, x: any) => a + Number(x.n ?? 0), 0),
  );
};
const S = "SETTINGS do_not_merge_across_partitions_select_final=1";
await time("select 1", "SELECT 1 n");
await time(
  "final",
  `SELECT provider, signature_valid, count() n FROM t FINAL WHERE org_id='org_0' GROUP BY 1,2 ${S}`,
);
await time(
  "nofinal with projection",
  `SELECT provider, signature_valid, count() n FROM t WHERE org_id='org_0' GROUP BY 1,2`,
);
await time(
  "nofinal no projection",
  `SELECT provider, signature_valid, count() n FROM t WHERE org_id='org_0' GROUP BY 1,2 SETTINGS optimize_use_projections=0`,
);
const ONE =
  "SELECT any(name) FROM system.parts WHERE active AND database=currentDatabase() AND table='t' GROUP BY partition_id HAVING count()=1";
const names = (
  await rows(
    `SELECT any(name) nm FROM system.parts WHERE active AND database=currentDatabase() AND table='t' GROUP BY partition_id HAVING count()=1`,
  )
)
  .map((r: any) => `'${r.nm}'`)
  .join(",");
await time(
  "parts listing",
  `SELECT any(name) nm FROM system.parts WHERE active AND database=currentDatabase() AND table='t' GROUP BY partition_id HAVING count()=1`,
);
await time(
  "_part IN literal",
  `SELECT provider, signature_valid, count() n FROM t WHERE org_id='org_0' AND _part IN (${names}) GROUP BY 1,2`,
);
await time(
  "_part IN subquery",
  `SELECT provider, signature_valid, count() n FROM t WHERE org_id='org_0' AND _part IN (${ONE}) GROUP BY 1,2`,
);
await time(
  "_partition_id IN sub",
  `SELECT provider, signature_valid, count() n FROM t WHERE org_id='org_0' AND _partition_id IN (SELECT partition_id FROM system.parts WHERE active AND table='t' GROUP BY partition_id HAVING count()=1) GROUP BY 1,2`,
);
await time(
  "union",
  `SELECT provider, signature_valid, sum(n) AS n FROM (SELECT provider, signature_valid, count() n FROM t WHERE org_id='org_0' AND _part IN (${ONE}) GROUP BY 1,2 UNION ALL SELECT provider, signature_valid, count() n FROM t FINAL WHERE org_id='org_0' AND _part NOT IN (${ONE}) GROUP BY 1,2) GROUP BY 1,2 ${S}`,
);
await time(
  "rest",
  `SELECT provider, signature_valid, count() n FROM t FINAL WHERE org_id='org_0' AND _part NOT IN (${ONE}) GROUP BY 1,2 ${S}`,
);
await time(
  "rest literal",
  `SELECT provider, signature_valid, count() n FROM t FINAL WHERE org_id='org_0' AND _part NOT IN (${names}) GROUP BY 1,2 ${S}`,
);
console.log(
  (
    await rows(
      `EXPLAIN indexes=1, projections=1 SELECT provider, signature_valid, count() n FROM t WHERE org_id='org_0' AND _part IN (${ONE}) GROUP BY 1,2`,
    )
  )
    .map((r: any) => r.explain)
    .join("\n"),
);
await c.close();
