import type { RequestListener } from "node:http";

const ENDLESS_BYTES = 1_073_741_824;
const CHUNK = Buffer.alloc(65_536, "x");

/** Takes the request and never answers. */
export const hangs: RequestListener = (request) => {
  request.resume();
};

/** Answers 200 and then sends a byte a second, without end. */
export const drips: RequestListener = (request, response) => {
  request.resume();
  response.writeHead(200);
  const timer = setInterval(() => response.write("."), 1_000);
  response.once("close", () => clearInterval(timer));
};

/** Answers 200 and then sends a gigabyte as fast as it is read; `onChunk` is called for every piece. */
export function floods(onChunk: (sizeBytes: number) => void = () => undefined): RequestListener {
  return (request, response) => {
    request.resume();
    response.writeHead(200);
    let leftBytes = ENDLESS_BYTES;
    const more = (): void => {
      while (leftBytes > 0 && !response.destroyed) {
        leftBytes -= CHUNK.length;
        onChunk(CHUNK.length);
        if (!response.write(CHUNK)) return void response.once("drain", more);
      }
      response.end();
    };
    more();
  };
}

/** Redirects every request to `url`. */
export function redirectsTo(url: string): RequestListener {
  return (request, response) => {
    request.resume();
    response.writeHead(307, { location: url }).end();
  };
}
