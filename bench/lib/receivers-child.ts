// A separate process: the given number of receivers that answer 200; its first message carries their ports.
import { startAnsweringReceivers } from "./answering-receivers.ts";

process.send?.(await startAnsweringReceivers(Number(process.argv[2] ?? 1)));
