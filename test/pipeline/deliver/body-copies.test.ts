import { describe, expect, it } from "vitest";
import { BodyCopies } from "../../../src/pipeline/deliver/bounds/body-copies.ts";

const MB = 1_048_576;

/** Copies that are made until they are told to end. */
class Copies {
  readonly #copies = new BodyCopies(4 * MB);
  readonly begun: string[] = [];
  readonly #ends = new Map<string, () => void>();

  make(name: string, bytes: number, partition = 0): Promise<string> {
    return this.#copies.run(partition, new Uint8Array(bytes), async () => {
      this.begun.push(name);
      await new Promise<void>((resolve) => this.#ends.set(name, resolve));
      return name;
    });
  }

  async end(name: string): Promise<void> {
    this.#ends.get(name)!();
    await new Promise(setImmediate);
  }
}

describe("copies of bodies", () => {
  it("are made at once while there is room, and then when others have been written", async () => {
    const copies = new Copies();
    const made = ["a", "b", "c", "d"].map((name) => copies.make(name, 1.5 * MB));
    expect(copies.begun).toEqual(["a", "b"]);
    await copies.end("b");
    expect(copies.begun).toEqual(["a", "b", "c"]);
    await copies.end("a");
    await copies.end("c");
    await copies.end("d");
    expect(await Promise.all(made)).toEqual(["a", "b", "c", "d"]);
  });

  it("that are larger than all of the room are made one at a time", async () => {
    const copies = new Copies();
    for (const name of ["a", "b"]) void copies.make(name, 9 * MB);
    expect(copies.begun).toEqual(["a"]);
    await copies.end("a");
    expect(copies.begun).toEqual(["a", "b"]);
  });

  it("of small bodies do not wait for those of large ones, and have a room of their own", async () => {
    const copies = new Copies();
    for (const name of ["A", "B"]) void copies.make(name, 4 * MB);
    for (let at = 0; at < 1_030; at += 1) void copies.make(`a${at}`, 63 * 1_024);
    expect(copies.begun).toEqual(["A", ...Array.from({ length: 1_024 }, (_, at) => `a${at}`)]);
    await copies.end("a3");
    expect(copies.begun.slice(1_025)).toEqual(["a1024"]);
  });

  it("of partitions take turns, each in its own order", async () => {
    const copies = new Copies();
    void copies.make("first", 4 * MB);
    for (const name of ["a1", "a2", "a3"]) void copies.make(name, 4 * MB, 1);
    for (const name of ["b1", "b2"]) void copies.make(name, 4 * MB, 2);
    for (const name of ["first", "a1", "b1", "a2", "b2"]) await copies.end(name);
    expect(copies.begun).toEqual(["first", "a1", "b1", "a2", "b2", "a3"]);
  });

  it("wait in turn even if one would fit: a large one is not passed over for ever", async () => {
    const copies = new Copies();
    for (const name of ["a", "b"]) void copies.make(name, 1.5 * MB);
    void copies.make("large", 4 * MB);
    void copies.make("c", MB);
    await copies.end("a");
    expect(copies.begun).toEqual(["a", "b"]);
    await copies.end("b");
    expect(copies.begun).toEqual(["a", "b", "large"]);
  });

  it("that fail give back their room", async () => {
    const copies = new BodyCopies(4 * MB);
    const body = new Uint8Array(4 * MB);
    const failure = new Error("not written");
    for (let at = 0; at < 3; at += 1)
      await expect(copies.run(0, body, () => Promise.reject(failure))).rejects.toBe(failure);
    expect(await copies.run(0, body, async () => "written")).toBe("written");
  });
});
