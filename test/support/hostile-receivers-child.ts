import { serveHostileReceivers } from "./hostile-receivers.ts";

await serveHostileReceivers();
