import { Command, CommanderError, Option } from "commander";
import { UsageError } from "../domain/errors.ts";
import { ROLES } from "../config/value-types.ts";
import { RELAY_VERSION } from "../config/version.ts";
import { describeFailure, describeLimit } from "./describe-failure.ts";
import { printLine, type CommandIo } from "./io.ts";
import type { ReplayOptions } from "./replay.ts";
import { unlessStopped } from "./unless-stopped.ts";

const VERIFY_HELP = `
A line, with the endpoint's settings and the request as it came:
  {"provider":"github","secret":"it-is-a-secret","headers":{"X-Hub-Signature-256":"sha256=841ff210487dcba4788662e42a3f53fdef997dc35fcaa2183ff78edc13f0ca1f"},"body_base64":"eyJoZWxsbyI6InJlbGF5In0="}
Also: id, verification_method (required for custom; leave it out where the
endpoint has its provider's own), config (as verification_config), url (the
endpoint's, with the request's query, where that is signed: Twilio, {path},
url_hash_claim), method (POST), now (when it came, such as 2026-11-20T12:00:00Z;
default: the clock), remote_addr, trusted_proxies (default:
RELAY_TRUSTED_PROXIES). headers may be the list that an event's detail shows,
too: [{"name":"X-Hub-Signature-256","value":"sha256=..."}].`;

const REPLAY_HELP = `
Run again, it leaves out what was delivered or waits for its next try. It cannot
see what was enqueued and has had no try yet (the destination is paused, or has
a long queue): wait for that first, or it is delivered twice.`;

const EXIT = { done: 0, failed: 1, badUsage: 2 } as const;

/** Parses the arguments, runs one command and returns its exit code. Commands load only what they need. */
export async function runProgram(io: CommandIo): Promise<number> {
  let exitCode: number = EXIT.done;
  const program = new Command("relay")
    .description("Receives webhooks, proves who sent them, keeps every one and delivers them.")
    .version(RELAY_VERSION)
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
    })
    .exitOverride();
  addCommands(program, io, (code) => {
    exitCode = code;
  });
  pointToHelp(program, program.name());
  try {
    await program.parseAsync(withDeepHelp(program, io.argv), { from: "user" });
    return exitCode;
  } catch (error) {
    return report(error, io);
  }
}

/** Lets what is wrong in the arguments of a command name the help of that very command, and so on below it. */
function pointToHelp(command: Command, name: string): void {
  const what = command.commands.length > 0 ? "lists the commands" : "shows what it takes";
  command.configureOutput({
    outputError: (text, write) => write(inOneLine(`${text}(${name} --help ${what})`)),
  });
  for (const one of command.commands) pointToHelp(one, `${name} ${one.name()}`);
}

/**
 * Joins the lines of an error: the library puts suggestions on a line of their own, but programs that read the output
 * take each line for an error.
 */
function inOneLine(text: string): string {
  return `${text.trim().replaceAll(/\s*\n\s*/g, " ")}\n`;
}

/**
 * Turns `help …` into `… --help`: for `help keys create` the library would show only `keys`, and for `help nope`
 * everything, where this fails as `nope` does.
 */
function withDeepHelp(program: Command, argv: readonly string[]): string[] {
  const [first, ...names] = argv;
  if (first !== "help") return [...argv];
  const path: string[] = [];
  for (let at = program; at.commands.length > 0 && path.length < names.length;) {
    const name = names[path.length]!;
    const next = at.commands.find((command) => command.name() === name);
    path.push(name);
    if (next === undefined) return path;
    at = next;
  }
  return [...path, "--help"];
}

function addCommands(program: Command, io: CommandIo, setExitCode: (code: number) => void): void {
  program
    .command("start")
    .description("run the relay; without store URLs everything is embedded in RELAY_DATA_DIR")
    .addOption(
      new Option(
        "--roles <list>",
        `what this process does: ${ROLES.join(",")} (default: RELAY_ROLES, or all)`,
      ),
    )
    .action(async (options: { roles?: string }) => {
      const { start } = await import("./start.ts");
      setExitCode(await start(io, options));
    });
  program
    .command("migrate")
    .description(
      "bring the tables of PostgreSQL and ClickHouse up to this version; safe to run twice",
    )
    .action(async () => {
      const { migrate } = await import("./migrate.ts");
      await unlessStopped(io, migrate(io));
    });
  addKeyCommands(program, io);
  program
    .command("secrets")
    .description("change the key that stored secrets are encrypted under")
    .command("reencrypt")
    .description(
      "encrypt all stored secrets anew under RELAY_ENCRYPTION_KEY; stop the relay before, start it with the new key after",
    )
    .addOption(
      new Option(
        "--old-key-file <path>",
        "file with the key they are stored under, base64; embedded: encryption.key in RELAY_DATA_DIR",
      ).makeOptionMandatory(),
    )
    .action(async (options: { oldKeyFile: string }) => {
      const { reencryptSecrets } = await import("./secrets.ts");
      await unlessStopped(io, reencryptSecrets(io, options));
    });
  program
    .command("replay")
    .description(
      "deliver again what died at a destination, through the management API; prints the events, oldest first",
    )
    .requiredOption("--destination <id>", "destination (dst_…) whose receiver was down")
    .option("--from <time>", "events received at this time or later, such as 2026-11-24T09:00:00Z")
    .option("--to <time>", "events received before this time (default: now)")
    .option("--url <url>", "management API (default: that of RELAY_API_HOST and RELAY_API_PORT)")
    .option(
      "--key-file <path>",
      "file with an API key (default: RELAY_BOOTSTRAP_API_KEY, or first-api-key in RELAY_DATA_DIR)",
    )
    .option("--dry-run", "only print what would be replayed")
    .addHelpText("after", REPLAY_HELP)
    .action(async (options: ReplayOptions) => {
      const { replay } = await import("./replay.ts");
      await unlessStopped(io, replay(io, options).then(setExitCode));
    });
  program
    .command("demo")
    .description(
      "run a whole relay in a temporary directory, send it good and forged webhooks, and show what became of them",
    )
    .action(async () => {
      const { demo } = await import("./demo.ts");
      setExitCode(await demo(io));
    });
  program
    .command("verify")
    .description(
      'explain verification: reads one JSON request per line on stdin, prints {"id","valid","reason","message"} per line',
    )
    .addHelpText("after", VERIFY_HELP)
    .action(async () => {
      const { verify } = await import("./verify.ts");
      await verify(io);
    });
}

function addKeyCommands(program: Command, io: CommandIo): void {
  const keys = program
    .command("keys")
    .description("API keys of an organization; works beside a running relay");
  const org = (description = "organization"): Option =>
    new Option("--org <name>", description).makeOptionMandatory();
  keys
    .command("create")
    .description("make a key and print it once")
    .addOption(org("organization; made on first use"))
    .addOption(new Option("--scope <scopes>", "read, write or read,write").default("read,write"))
    .action(async (options: { org: string; scope: string }) => {
      const { createKey } = await import("./keys.ts");
      await unlessStopped(io, createKey(io, options));
    });
  keys
    .command("list")
    .description("list the keys without their secret part")
    .addOption(org())
    .action(async (options: { org: string }) => {
      const { listKeys } = await import("./keys.ts");
      await unlessStopped(io, listKeys(io, options));
    });
  keys
    .command("revoke <key>")
    .description(
      "revoke a key by its id (key_…), its public part as listed, or the whole key; effective within 2 s",
    )
    .addOption(org())
    .action(async (key: string, options: { org: string }) => {
      const { revokeKey } = await import("./keys.ts");
      await unlessStopped(io, revokeKey(io, key, options));
    });
}

function report(error: unknown, io: CommandIo): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.badUsage;
  const limit = describeLimit(error);
  printLine(io.stderr, `relay: ${limit ?? describeFailure(error)}`);
  return limit === null && error instanceof UsageError ? EXIT.badUsage : EXIT.failed;
}
