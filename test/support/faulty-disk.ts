import fs from "node:fs";
import { SEGMENT_BYTES } from "../../src/adapters/lmdb/segments/segment-files.ts";
import type { SeededRandom } from "../faults/harness/random.ts";
import { diskFailure, replaceFiles } from "./replace-files.ts";

const PAGE_BYTES = 4_096;

/** What happens to a commit as it is written. */
export type WriteFault =
  | "none"
  /** A part is written, and the call returns its length or fails. */
  | "cut short"
  /** All of it is written, but cannot be made durable. */
  | "not synced"
  /** The machine stops: any part of it is on the disk. */
  | "power fails";

interface Handle extends AsyncDisposable {
  writeFile(data: Uint8Array): Promise<void>;
  datasync(): Promise<void>;
  sync(): Promise<void>;
}

/**
 * Replaces this process's file system functions by ones with the faults a disk may have; LMDB's writes bypass them. Nothing is
 * really synced, and background work beside the commits runs only on demand: the same seed gives the same run.
 */
export class FaultyDisk implements Disposable {
  writeFault: WriteFault = "none";
  /** Whether the head of a refused commit can be overwritten. */
  canBlank = true;
  canCreate = true;
  /** Called before any part of the write during which the power fails is on the disk. */
  onPowerFailure: () => void = () => {};
  readonly #random: SeededRandom;
  readonly #replaced: Disposable;
  #isOff = false;
  #goOn: () => void = () => {};

  constructor(random: SeededRandom) {
    this.#random = random;
    const { writeSync, writeFileSync, promises } = fs;
    const { open, rm } = promises;
    const segments = {
      writevSync: (file: number, parts: readonly Uint8Array[], at: number) =>
        this.#write(Buffer.concat(parts), (bytes, from) => {
          if (bytes.length > 0) writeSync(file, bytes, 0, bytes.length, at + from);
        }),
      fdatasyncSync: () => {
        if (this.#isOff || this.writeFault === "not synced") throw diskFailure("EIO");
      },
      fsyncSync: () => {},
      writeSync: (file: number, bytes: Uint8Array, from?: number, length?: number, at?: number) => {
        // Besides the blanking of a head, only the room made in LMDB's file passes a position to this function.
        const isBlanking = typeof at === "number" && bytes.length < PAGE_BYTES;
        if (isBlanking && (this.#isOff || !this.canBlank)) throw diskFailure("EIO");
        return writeSync(file, bytes, from, length, at);
      },
      writeFileSync: (...args: Parameters<typeof writeFileSync>) => {
        if (typeof args[0] !== "number" || this.#canCreateNow()) return writeFileSync(...args);
        writeFileSync(args[0], Buffer.alloc(this.#below(SEGMENT_BYTES)));
        throw diskFailure("ENOSPC");
      },
    };
    const beside = {
      open: async (...args: Parameters<typeof open>) => {
        const path = String(args[0]);
        if (path.endsWith(".segment")) return this.#prepare(path);
        return path.endsWith("segments") ? FOLDER : open(...args);
      },
      rm: async (...args: Parameters<typeof rm>) => {
        if (!String(args[0]).endsWith(".segment")) await rm(...args);
        else if (!this.#isOff) fs.rmSync(...args);
      },
    };
    this.#replaced = replaceFiles(segments, beside);
  }

  /** Completes the making and removing of segments beside the commits. */
  async finishBeside(): Promise<void> {
    this.#goOn();
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** Cuts the power: no later write or removal reaches the disk. */
  cutPower(): void {
    if (this.#isOff) return;
    this.onPowerFailure();
    this.#isOff = true;
  }

  get isOff(): boolean {
    return this.#isOff;
  }

  switchOn(): void {
    this.#isOff = false;
    this.writeFault = "none";
  }

  [Symbol.dispose](): void {
    this.#replaced[Symbol.dispose]();
  }

  #write(bytes: Buffer, put: (bytes: Buffer, from: number) => void): number {
    if (this.#isOff) throw diskFailure("EIO");
    switch (this.writeFault) {
      case "none":
      case "not synced":
        put(bytes, 0);
        return bytes.length;
      case "cut short": {
        const written = this.#below(bytes.length);
        put(bytes.subarray(0, written), 0);
        if (this.#random.next() < 0.5) throw diskFailure("EIO");
        return written;
      }
      case "power fails":
        this.cutPower();
        this.#writePart(bytes, put);
        throw diskFailure("EIO");
      default:
        return this.writeFault satisfies never;
    }
  }

  #writePart(bytes: Buffer, put: (bytes: Buffer, from: number) => void): void {
    const part = this.#random.pick(["prefix", "first page", "pages", "suffix", "all"] as const);
    const cut = this.#below(bytes.length);
    if (part === "all") put(bytes, 0);
    else if (part === "prefix") put(bytes.subarray(0, cut), 0);
    else if (part === "first page") put(bytes.subarray(0, PAGE_BYTES), 0);
    else if (part === "suffix") put(bytes.subarray(cut), cut);
    else
      for (let at = 0; at < bytes.length; at += PAGE_BYTES)
        if (this.#random.next() < 0.7) put(bytes.subarray(at, at + PAGE_BYTES), at);
  }

  /** Creates the file at once; its content is written by `finishBeside`. */
  async #prepare(path: string): Promise<Handle> {
    const file = fs.openSync(path, "wx", 0o600);
    await new Promise<void>((resolve) => {
      this.#goOn = resolve;
    });
    return {
      writeFile: async (data) => {
        if (this.#canCreateNow()) fs.writeFileSync(file, data);
        else throw diskFailure("ENOSPC");
      },
      datasync: async () => {},
      sync: async () => {},
      [Symbol.asyncDispose]: async () => fs.closeSync(file),
    };
  }

  #canCreateNow(): boolean {
    return this.canCreate && !this.#isOff;
  }

  #below(most: number): number {
    return Math.floor(this.#random.between(0, most));
  }
}

const FOLDER: Handle = {
  writeFile: async () => {},
  datasync: async () => {},
  sync: async () => {},
  [Symbol.asyncDispose]: async () => {},
};
