// A service that steps of workflows call.

import { createServer, type Server } from "node:http";

export class Service {
  /** The status of the next responses. */
  status = 200;
  requests = 0;

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static start(): Promise<Service> {
    return new Promise((done, fail) => {
      const server = createServer((_, response) => {
        service.requests += 1;
        response.writeHead(service.status, { "content-type": "application/json" }).end('{"paid": true}');
      });
      let service: Service;
      server.once("error", fail);
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        if (address === null || typeof address === "string") return fail(new Error("the service has no port"));
        service = new Service(server, `http://127.0.0.1:${address.port}/`);
        done(service);
      });
    });
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}
