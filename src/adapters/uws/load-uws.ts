import type * as Uws from "uWebSockets.js";
import { UsageError } from "../../domain/errors.ts";

/** 16 KiB of headers are promised; the request line and what a proxy adds come on top. */
const MAX_HEADERS_BYTES = 24 * 1024;

/** The typings declare `ListenOptions`, but the module exports its values. */
export type UwsModule = typeof Uws & { readonly LIBUS_LISTEN_EXCLUSIVE_PORT: number };

/**
 * Loads the native server. Its header limit is read from the environment when the binary is loaded,
 * so it has to be set before that, and the import has to be dynamic.
 * @throws {UsageError} when there is no binary for this Node version and platform
 */
export async function loadUws(
  load: () => Promise<UwsModule> = async () => (await import("uWebSockets.js")) as UwsModule,
): Promise<UwsModule> {
  process.env["UWS_HTTP_MAX_HEADERS_SIZE"] ??= String(MAX_HEADERS_BYTES);
  try {
    return await load();
  } catch (error) {
    throw new UsageError(
      `uWebSockets.js has no binary for Node ${process.versions.node} on ${process.platform}-${process.arch}: ` +
        'use Node 20 or 22, or take the official build as the README says under "uWebSockets.js"',
      { cause: error },
    );
  }
}
