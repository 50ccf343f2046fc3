import { request as httpRequest } from "node:http";

export interface RawAnswer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly text: string;
}

/** Sends a request as no well-behaved client would: any target, any method, chunked bodies. */
export async function sendRaw(
  baseUrl: string,
  options: {
    readonly method: string;
    readonly target: string;
    readonly headers?: Record<string, string | string[]>;
    readonly body?: Uint8Array | string;
    readonly chunked?: boolean;
  },
): Promise<RawAnswer> {
  const { hostname, port } = new URL(baseUrl);
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: hostname,
        port,
        method: options.method,
        path: options.target,
        headers: options.headers ?? {},
        agent: false,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      },
    );
    request.on("error", reject);
    if (options.body !== undefined) {
      if (options.chunked === true) request.setHeader("transfer-encoding", "chunked");
      else request.setHeader("content-length", Buffer.byteLength(options.body));
      request.write(options.body);
    }
    request.end();
  });
}
