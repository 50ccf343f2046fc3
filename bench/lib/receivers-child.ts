// A process of its own: so many receivers that answer 200, and their ports as its first message.
import { startAnsweringReceivers } from "./answering-receivers.ts";

process.send?.(await startAnsweringReceivers(Number(process.argv[2] ?? 1)));
