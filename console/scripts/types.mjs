// Writes src/api/types.ts from docs/reference/openapi.json: the schemas, and the routes with their parameters.
// With --check it writes nothing, and fails if the file is stale.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const document = JSON.parse(readFileSync(join(root, "../docs/reference/openapi.json"), "utf8"));
const target = join(root, "src/api/types.ts");

const isName = (text) => /^[A-Za-z_$][\w$]*$/.test(text);
const property = (name) => (isName(name) ? name : JSON.stringify(name));
const comment = (text, indent) => {
  const line = (text ?? "").split("\n\n")[0].replace(/\s+/g, " ").replaceAll("*/", "* /").trim();
  return line ? `${indent}/** ${line} */\n` : "";
};

function union(types) {
  const unique = [...new Set(types)];
  if (unique.includes("unknown")) return "unknown";
  return unique.length === 0 ? "unknown" : unique.join(" | ");
}

function typeOf(schema, indent = "") {
  if (schema === true || schema === undefined) return "unknown";
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    // A variant of a tagged union is its content with the tag beside it.
    return schema.properties ? `${name} & ${objectOf(schema, indent)}` : name;
  }
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((value) => JSON.stringify(value)));
  const choice = schema.oneOf ?? schema.anyOf;
  if (choice) return union(choice.map((one) => typeOf(one, indent)));
  if (schema.allOf) return schema.allOf.map((one) => typeOf(one, indent)).join(" & ");
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, indent)));
  switch (schema.type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array": {
      const item = typeOf(schema.items, indent);
      return item.includes(" ") ? `Array<${item}>` : `${item}[]`;
    }
    default:
      return objectOf(schema, indent);
  }
}

function objectOf(schema, indent) {
  if (!schema.properties) {
    if (schema.type !== "object") return "unknown";
    const values = schema.additionalProperties;
    return `{ [name: string]: ${values && typeof values === "object" ? typeOf(values, indent) : "unknown"} }`;
  }
  const required = new Set(schema.required ?? []);
  const inner = `${indent}  `;
  const lines = Object.entries(schema.properties).map(([name, value]) => {
    const mark = required.has(name) ? "" : "?";
    return `${comment(value.description, inner)}${inner}${property(name)}${mark}: ${typeOf(value, inner)};`;
  });
  return `{\n${lines.join("\n")}\n${indent}}`;
}

function schemas() {
  return Object.entries(document.components.schemas).map(([name, schema]) => {
    return `${comment(schema.description, "")}export type ${name} = ${typeOf(schema)};`;
  });
}

const resolve = (value) => {
  if (!value?.$ref) return value;
  return value.$ref
    .split("/")
    .slice(1)
    .reduce((node, part) => node[part], document);
};

const jsonOf = (content) => content?.["application/json"]?.schema;

function route(method, path, operation, shared) {
  const parameters = [...(shared ?? []), ...(operation.parameters ?? [])].map(resolve);
  const fields = [];
  const inQuery = parameters.filter((parameter) => parameter.in === "query");
  if (inQuery.length > 0) {
    const list = inQuery.map((parameter) => `${property(parameter.name)}?: ${typeOf(parameter.schema)}`);
    fields.push(`query: { ${list.join("; ")} };`);
  }
  const body = jsonOf(resolve(operation.requestBody)?.content);
  if (body) fields.push(`body: ${typeOf(body, "    ")};`);
  const answers = Object.entries(operation.responses)
    .filter(([code]) => code.startsWith("2"))
    .map(([, answer]) => jsonOf(resolve(answer).content))
    .map((schema) => (schema ? typeOf(schema, "    ") : "undefined"));
  fields.push(`answer: ${union(answers)};`);
  return `${comment(operation.summary, "  ")}  "${method.toUpperCase()} ${path}": { ${fields.join(" ")} };`;
}

function routes() {
  const methods = ["get", "post", "put", "patch", "delete"];
  return Object.entries(document.paths).flatMap(([path, item]) =>
    methods.filter((method) => item[method]).map((method) => route(method, path, item[method], item.parameters)),
  );
}

const text = `// Generated from docs/reference/openapi.json by \`npm run types\`. Do not edit.

${schemas().join("\n\n")}

/** Every route, with its query parameters, its body and its answer. */
export interface Routes {
${routes().join("\n")}
}
`;

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("src/api/types.ts is stale: npm run types");
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
