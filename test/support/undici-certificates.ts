import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

export interface Certificates {
  readonly ca: string;
  readonly good: Certificate;
  readonly expired: Certificate;
  readonly wrongName: Certificate;
  readonly selfSigned: Certificate;
}

/** Makes a throwaway authority and its certificates (openssl), for 127.0.0.1 and `receiver.example.com`. */
export function makeCertificates(): Certificates {
  const dir = mkdtempSync(join(tmpdir(), "relay-certificates-"));
  const openssl = (...args: string[]) =>
    execFileSync("openssl", args, { cwd: dir, stdio: ["ignore", "pipe", "pipe"] });
  const read = (name: string) => readFileSync(join(dir, name), "utf8");
  const newKey = (name: string) =>
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", `${name}.key`);
  const RECEIVER = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:receiver.example.com";
  try {
    newKey("ca");
    openssl(
      "req",
      "-x509",
      "-new",
      "-key",
      "ca.key",
      "-subj",
      "/CN=test authority",
      "-days",
      "2",
      "-out",
      "ca.crt",
    );
    writeFileSync(join(dir, "index"), "");
    writeFileSync(
      join(dir, "ca.cnf"),
      [
        "[ca]",
        "default_ca=d",
        "[d]",
        `dir=${dir}`,
        "new_certs_dir=$dir",
        "database=$dir/index",
        "rand_serial=yes",
        "default_md=sha256",
        "policy=p",
        "unique_subject=no",
        "[p]",
        "commonName=supplied",
      ].join("\n"),
    );
    const issue = (name: string, altName: string, start: string, end: string): Certificate => {
      newKey(name);
      writeFileSync(join(dir, `${name}.ext`), altName);
      openssl("req", "-new", "-key", `${name}.key`, "-subj", `/CN=${name}`, "-out", `${name}.csr`);
      openssl(
        "ca",
        "-batch",
        "-config",
        "ca.cnf",
        "-cert",
        "ca.crt",
        "-keyfile",
        "ca.key",
        "-in",
        `${name}.csr`,
        "-extfile",
        `${name}.ext`,
        "-startdate",
        start,
        "-enddate",
        end,
        "-notext",
        "-out",
        `${name}.crt`,
      );
      return { key: read(`${name}.key`), cert: read(`${name}.crt`) };
    };
    newKey("self");
    openssl(
      "req",
      "-x509",
      "-new",
      "-key",
      "self.key",
      "-subj",
      "/CN=self",
      "-addext",
      RECEIVER,
      "-days",
      "2",
      "-out",
      "self.crt",
    );
    return {
      ca: read("ca.crt"),
      good: issue("good", RECEIVER, "20200101000000Z", "20990101000000Z"),
      expired: issue("expired", RECEIVER, "20200101000000Z", "20210101000000Z"),
      wrongName: issue(
        "wrong",
        "subjectAltName=DNS:other.example.com",
        "20200101000000Z",
        "20990101000000Z",
      ),
      selfSigned: { key: read("self.key"), cert: read("self.crt") },
    };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
