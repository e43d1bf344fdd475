import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { describe, it } from "node:test";
import { Endpoint } from "../src/http.js";
import { connect, frame, UpgradeRefused, type WebSocket } from "../src/websocket.js";
import { read, text } from "./fake-server.js";

interface Server {
  address: Endpoint;
  /** The other end, once a client has connected. */
  socket: Promise<Socket>;
  heard: string[];
  controls: [number, string][];
  close(): void;
}

/** A server on a bare socket, so that every byte can be chosen. */
async function listen(answer?: (key: string) => string): Promise<Server> {
  let arrive: (socket: Socket) => void;
  const heard: string[] = [];
  const controls: [number, string][] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    let head = "";
    const onData = (chunk: Buffer) => {
      head += chunk.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      socket.off("data", onData);
      const key = /sec-websocket-key: (.*)\r\n/i.exec(head)?.[1] ?? "";
      const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
      socket.write(answer?.(key) ?? `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`);
      read(
        socket,
        (said) => heard.push(said),
        (opcode, bytes) => controls.push([opcode, bytes.toString("latin1")]),
      );
      arrive(socket);
    };
    socket.on("data", onData);
  });
  const socket = new Promise<Socket>((resolve) => {
    arrive = resolve;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = new Endpoint({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: "es_test" });
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { address, socket, heard, controls, close };
}

interface Client {
  socket: WebSocket;
  texts: string[];
  closed: Promise<[number, string]>;
}

async function open(server: Server, maxBytes = 1_000_000): Promise<Client> {
  const texts: string[] = [];
  let end: (how: [number, string]) => void;
  const closed = new Promise<[number, string]>((resolve) => {
    end = resolve;
  });
  const events = { text: (said: string) => void texts.push(said), closed: (code: number, reason: string) => end([code, reason]) };
  return { socket: await connect(server.address, "/socket", events, { timeoutMs: 1_000, maxBytes }), texts, closed };
}

async function until(is: () => boolean): Promise<void> {
  for (let i = 0; i < 1_000 && !is(); i++) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.ok(is());
}

describe("the WebSocket client", () => {
  for (const length of [0, 1, 5, 125, 126, 127, 65_535, 65_536, 300_001]) {
    it(`sends and takes ${length} characters`, async () => {
      const server = await listen();
      const client = await open(server);
      const said = "ä€x".repeat(Math.ceil(length / 3)).slice(0, length);
      client.socket.send(said);
      await until(() => server.heard.length === 1);
      assert.equal(server.heard[0], said);
      (await server.socket).write(text(said));
      await until(() => client.texts.length === 1);
      assert.equal(client.texts[0], said);
      server.close();
    });
  }

  it("masks every frame with another mask", () => {
    const masks = new Set(Array.from({ length: 2_000 }, () => frame(1, "hello").subarray(2, 6).toString("hex")));
    assert.ok(masks.size > 1_990);
    assert.equal((frame(1, "hello")[1] as number) & 0x80, 0x80);
  });

  it("takes frames byte by byte, several at once, and in fragments with a ping between", async () => {
    const server = await listen();
    const client = await open(server);
    const other = await server.socket;
    for (const byte of text("slowly")) {
      other.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    other.write(Buffer.concat([text("one"), text("two")]));
    const first = Buffer.concat([Buffer.from([0x01, 2]), Buffer.from("he")]);
    const ping = Buffer.concat([Buffer.from([0x89, 2]), Buffer.from("hi")]);
    const last = Buffer.concat([Buffer.from([0x80, 3]), Buffer.from("llo")]);
    other.write(Buffer.concat([first, ping, last]));
    await until(() => client.texts.length === 4);
    assert.deepEqual(client.texts, ["slowly", "one", "two", "hello"]);
    await until(() => server.controls.length === 1);
    assert.deepEqual(server.controls, [[10, "hi"]]);
    server.close();
  });

  it("answers a close, and reports its code and reason", async () => {
    const server = await listen();
    const client = await open(server);
    const reason = Buffer.from("gone");
    (await server.socket).write(Buffer.concat([Buffer.from([0x88, 2 + reason.length, 4410 >> 8, 4410 & 255]), reason]));
    assert.deepEqual(await client.closed, [4410, "gone"]);
    await until(() => server.controls.length === 1);
    assert.deepEqual(server.controls[0], [8, String.fromCharCode(4410 >> 8, 4410 & 255)]);
    server.close();
  });

  it("reports that the connection is lost", async () => {
    const server = await listen();
    const client = await open(server);
    (await server.socket).destroy();
    assert.equal((await client.closed)[0], 1006);
    server.close();
  });

  const wrong: [string, Buffer, number][] = [
    ["a masked frame", Buffer.from([0x81, 0x80, 0, 0, 0, 0]), 1002],
    ["an unknown extension", Buffer.from([0xc1, 0]), 1002],
    ["a continuation of nothing", Buffer.from([0x80, 0]), 1002],
    ["a message within another", Buffer.from([0x01, 1, 65, 0x81, 0]), 1002],
    ["a ping in pieces", Buffer.from([0x09, 0]), 1002],
    ["binary data", Buffer.from([0x82, 0]), 1003],
    ["more than was agreed on", Buffer.from([0x81, 127, 0, 0, 0, 1, 0, 0, 0, 0]), 1009],
  ];
  for (const [what, bytes, code] of wrong) {
    it(`closes with ${code} at ${what}`, async () => {
      const server = await listen();
      const client = await open(server);
      (await server.socket).write(bytes);
      assert.equal((await client.closed)[0], code);
      await until(() => server.controls.length === 1);
      assert.deepEqual(server.controls[0], [8, String.fromCharCode(code >> 8, code & 255)]);
      server.close();
    });
  }

  it("rejects an answer that is no upgrade, and one that belongs to another question", async () => {
    const plain = await listen(() => "HTTP/1.1 426 Upgrade Required\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nno");
    await assert.rejects(open(plain), (error: unknown) => error instanceof UpgradeRefused && error.status === 426 && error.body === "no");
    plain.close();
    const other = await listen(() => "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: x\r\n\r\n");
    await assert.rejects(open(other), UpgradeRefused);
    other.close();
  });
});
