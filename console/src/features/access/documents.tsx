// Data sources and saved queries as named documents.

import { call } from "../../api/client";
import { t } from "../../lib/i18n";
import { isObject } from "../../lib/json";
import { DocumentScreen } from "./DocumentScreen";

export function SourcesScreen() {
  return (
    <DocumentScreen
      kind={{
        cacheKey: "sources",
        title: t("nav.sources"),
        icon: "database",
        none: { title: t("sources.none"), text: t("sources.noneText") },
        create: t("sources.create"),
        template: { type: "http", baseUrl: "https://api.example.com" },
        kindOf: (document) => String(document.type ?? ""),
        trial: {
          label: t("sources.test"),
          args: null,
          run: (name) => call("POST /v1/data-sources/{name}/test", { path: { name } }),
        },
        read: async (cursor, signal) => {
          const page = await call("GET /v1/data-sources", { query: { cursor, limit: 200 }, signal });
          const rows = page.dataSources.map((one) => ({
            name: one.name,
            document: one.source,
            updatedAt: one.updatedAt,
          }));
          return { rows, nextCursor: page.nextCursor };
        },
        save: (name, document) => call("PUT /v1/data-sources/{name}", { path: { name }, body: document as never }),
        remove: (name) => call("DELETE /v1/data-sources/{name}", { path: { name } }),
      }}
    />
  );
}

export function QueriesScreen() {
  return (
    <DocumentScreen
      kind={{
        cacheKey: "queries",
        title: t("nav.queries"),
        icon: "query",
        none: { title: t("queries.none"), text: t("queries.noneText") },
        create: t("queries.create"),
        template: { source: "", sql: "select 1", arguments: [] },
        kindOf: (document) => String(document.source ?? ""),
        trial: {
          label: t("queries.try"),
          args: {},
          run: (id, args) =>
            call("POST /v1/queries/{id}/run", { path: { id }, body: { args: isObject(args) ? args : {} } }),
        },
        read: async (cursor, signal) => {
          const page = await call("GET /v1/queries", { query: { cursor, limit: 200 }, signal });
          const rows = page.queries.map((one) => ({ name: one.id, document: one.query, updatedAt: one.updatedAt }));
          return { rows, nextCursor: page.nextCursor };
        },
        save: (id, document) => call("PUT /v1/queries/{id}", { path: { id }, body: document as never }),
        remove: (id) => call("DELETE /v1/queries/{id}", { path: { id } }),
      }}
    />
  );
}
