// Checks the Dockerfile against the tree it is built from, and what must hold for its image.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { readText } from "./files.js";

const FILE = "deploy/Dockerfile";

/** Returns the instructions as `{ name, text, stage }`, with continued lines joined. */
export function readInstructions(root) {
  let stage = -1;
  return readText(root, FILE)
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name, text] = /^(\w+)\s+(.*)$/.exec(line) ?? [null, "?", line];
      if (name === "FROM") stage += 1;
      return { name, text, stage };
    });
}

export function checkDockerfile({ root, report }) {
  const instructions = readInstructions(root);
  const stages = instructions
    .filter(({ name }) => name === "FROM")
    .map(({ text }) => / AS (\S+)/i.exec(text)?.[1]);
  const ignored = readText(root, ".dockerignore").split("\n").filter(Boolean);
  for (const { name, text, stage } of instructions) {
    report.expect(KNOWN.includes(name), FILE, `${name} is no instruction`);
    if (name === "FROM") report.expect(/:\S*\d/.test(text), FILE, `${text}: name a version`);
    if (name !== "COPY") continue;
    const from = /--from=(\S+)/.exec(text)?.[1];
    const sources = text
      .split(/\s+/)
      .filter((word) => !word.startsWith("--"))
      .slice(0, -1);
    if (from !== undefined)
      report.expect(
        stages.slice(0, stage).includes(from),
        FILE,
        `COPY --from=${from}: no such stage before`,
      );
    else
      for (const source of sources) {
        report.expect(existsSync(join(root, source)), FILE, `COPY ${source}: does not exist`);
        report.expect(
          !ignored.some((rule) => source === rule || source.startsWith(`${rule}/`)),
          FILE,
          `COPY ${source}: .dockerignore leaves it out`,
        );
      }
  }
  const last = instructions.filter(({ stage }) => stage === stages.length - 1);
  const textOf = (name) => last.findLast((instruction) => instruction.name === name)?.text ?? "";
  report.expect(
    /^[1-9]\d*(:[1-9]\d*)?$/.test(textOf("USER")),
    FILE,
    "USER must be a number other than 0: runAsNonRoot cannot check names",
  );
  report.expect(textOf("HEALTHCHECK").includes("/healthz"), FILE, "HEALTHCHECK must ask /healthz");
  report.expect(
    ["8080", "8081", "9090"].every((port) => textOf("EXPOSE").split(/\s+/).includes(port)),
    FILE,
    "EXPOSE must name 8080, 8081 and 9090",
  );
  const entry = /"(bin\/[^"]+)"/.exec(textOf("ENTRYPOINT"))?.[1] ?? "";
  report.expect(
    entry !== "" && existsSync(join(root, entry)),
    FILE,
    `ENTRYPOINT ${entry} does not exist`,
  );
}

const KNOWN =
  "ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN STOPSIGNAL USER VOLUME WORKDIR".split(
    " ",
  );
