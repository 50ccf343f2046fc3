import { createSocket } from "node:dgram";
import { once } from "node:events";

/** Query type of an IPv4 address (RFC 1035 section 3.2.2). */
export const A = 1;

/** What a server says of a name that it knows not to exist (NXDOMAIN). */
export const NO_SUCH_NAME = "no such name";

const HEADER_BYTES = 12;
const TYPE_AND_CLASS_BYTES = 4;

/** Starts a DNS server on 127.0.0.1 that gives one IPv4 address for a name, or no answer at all if `addressFor` returns null. */
export async function startDns(
  addressFor: (type: number, name: string) => string | null,
): Promise<AsyncDisposable & { readonly port: number }> {
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    const questionEnd = query.indexOf(0, HEADER_BYTES) + 1 + TYPE_AND_CLASS_BYTES;
    const type = query.readUInt16BE(questionEnd - TYPE_AND_CLASS_BYTES);
    const address = addressFor(type, nameIn(query));
    if (address !== null) socket.send(answerTo(query, questionEnd, address), from.port);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    port: socket.address().port,
    async [Symbol.asyncDispose]() {
      socket.close();
      await once(socket, "close");
    },
  };
}

function nameIn(query: Buffer): string {
  const labels: string[] = [];
  for (let at = HEADER_BYTES; query[at] !== 0; at += 1 + query[at]!)
    labels.push(query.toString("latin1", at + 1, at + 1 + query[at]!));
  return labels.join(".").toLowerCase();
}

function answerTo(query: Buffer, questionEnd: number, address: string): Buffer {
  const header = Buffer.from(query.subarray(0, HEADER_BYTES));
  const question = query.subarray(HEADER_BYTES, questionEnd);
  const exists = address !== NO_SUCH_NAME;
  header.writeUInt16BE(exists ? 0x8180 : 0x8183, 2); // A response, without error or NXDOMAIN.
  header.writeUInt16BE(exists ? 1 : 0, 6); // One answer, or none,
  header.writeUInt16BE(0, 8);
  header.writeUInt16BE(0, 10); // and no additional record.
  if (!exists) return Buffer.concat([header, question]);
  const record = Buffer.alloc(16);
  record.writeUInt16BE(0xc00c, 0); // The name of the question.
  record.writeUInt16BE(A, 2);
  record.writeUInt16BE(1, 4);
  record.writeUInt32BE(60, 6);
  record.writeUInt16BE(4, 10);
  for (const [index, part] of address.split(".").entries()) record[12 + index] = Number(part);
  return Buffer.concat([header, question, record]);
}
