// Which room may import which: the table in src/README.md, enforced.
const rooms = (from, allowed, extra = {}) => ({
  name: `room-${from.replaceAll("/", "-")}`,
  severity: "error",
  from: { path: `^src/${from}/` },
  to: {
    pathNot: [
      ...allowed.map((room) => `^src/${room}/`),
      ...(extra.packages ?? []).map((p) => `node_modules/${p}/`),
      ...(extra.core ?? []),
    ],
    ...(extra.allowCore ? { dependencyTypesNot: ["core"] } : {}),
  },
});
const stages = ["ingest", "verify", "record", "fanout", "deliver", "delay", "attempts", "query"];

module.exports = {
  forbidden: [
    { name: "no-circular", severity: "error", from: {}, to: { circular: true } },
    {
      name: "no-orphans",
      severity: "error",
      from: { orphan: true, pathNot: ["\\.d\\.ts$", "^src/main\\.ts$", "worker\\.ts$"] },
      to: {},
    },
    {
      name: "src-never-imports-test-or-bench",
      severity: "error",
      from: { path: "^src/" },
      to: { path: "^(test|bench)/" },
    },
    rooms("domain", ["domain"], {
      packages: ["ipaddr.js"],
      core: ["^(node:)?(crypto|buffer|url|net)$"],
    }),
    rooms("signing", ["domain", "signing"], { core: ["^(node:)?(crypto|buffer)$"] }),
    ...stages.map((stage) =>
      rooms(`pipeline/${stage}`, ["domain", "signing", "pipeline/log", `pipeline/${stage}`], {
        core: ["^(node:)?(crypto|buffer|timers|events)(/|$)"],
      }),
    ),
    rooms("pipeline/log", ["domain", "pipeline/log"], {
      packages: ["msgpackr"],
      core: ["^(node:)?(buffer|crypto)$"],
    }),
    rooms("management", ["domain", "signing", "pipeline/log", "pipeline/query", "management"], {
      packages: ["lru-cache"],
      core: ["^(node:)?(crypto|buffer|timers)(/|$)"],
    }),
    rooms("api", ["management", "domain", "pipeline/query", "api"], {
      packages: ["zod", "hono", "@hono"],
      core: ["^(node:)?(crypto|buffer|http)$"],
    }),
    rooms("config", ["domain", "config"], {
      packages: ["zod"],
      core: ["^(node:)?(path|os|net|buffer)$"],
    }),
    {
      name: "client-libraries-only-in-adapters",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/(adapters|embedded)/" },
      to: {
        path: "node_modules/(uWebSockets\\.js|piscina|kafkajs|lmdb|@clickhouse|pg|undici|prom-client|pino|chdb|@electric-sql)/",
      },
    },
    {
      name: "adapters-know-only-the-domain",
      severity: "error",
      from: { path: "^src/adapters/([^/]+)/", pathNot: "^src/adapters/piscina/" },
      to: { path: "^src/", pathNot: ["^src/domain/", "^src/adapters/$1/"] },
    },
    {
      // Its worker is verification itself, on another thread.
      name: "piscina-knows-verification",
      severity: "error",
      from: { path: "^src/adapters/piscina/" },
      to: {
        path: "^src/",
        pathNot: ["^src/domain/", "^src/adapters/piscina/", "^src/pipeline/verify/"],
      },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default"],
      extensions: [".ts", ".js", ".json"],
    },
  },
};
