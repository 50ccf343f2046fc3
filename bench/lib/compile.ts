import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const OUT = join(ROOT, "node_modules/.cache/webhook-relay-bench");

/**
 * Compiles `src` and `bench` file by file and returns the folder. Measured code runs compiled: the TypeScript
 * loader names every closure on creation, a cost the hot path would pay.
 */
export function compileForBench(): string {
  const { config } = ts.readConfigFile(join(ROOT, "tsconfig.json"), (path) =>
    readFileSync(path, "utf8"),
  ) as { config: { compilerOptions: object } };
  const { options } = ts.convertCompilerOptionsFromJson(
    {
      ...config.compilerOptions,
      noEmit: false,
      sourceMap: false,
      module: "esnext",
      moduleResolution: "bundler",
    },
    ROOT,
  );
  rmSync(OUT, { recursive: true, force: true });
  for (const folder of ["src", "bench", "test/support"]) {
    for (const name of readdirSync(join(ROOT, folder), { recursive: true }) as string[]) {
      if (!name.endsWith(".ts")) continue;
      const source = readFileSync(join(ROOT, folder, name), "utf8");
      const { outputText } = ts.transpileModule(source, {
        compilerOptions: options,
        fileName: name,
      });
      const target = join(OUT, folder, name.replace(/\.ts$/, ".js"));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, outputText);
    }
  }
  writeFileSync(join(OUT, "package.json"), '{"type":"module"}');
  return OUT;
}
