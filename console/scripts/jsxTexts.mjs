// Finds the texts in JSX that a person reads and that do not come from the messages.
import { parseAst } from "vite";

/** Attributes that are read by people or by screen readers. */
const READ = new Set(["title", "aria-label", "aria-description", "aria-valuetext", "placeholder", "label", "alt"]);
/** The same in every language: a name, and the beginnings of what is to be written. */
const SAME = /^(Everstep|\w+[:_]…|(GET|POST|PUT|DELETE) \/.*)$/;

const isText = (text) => /[A-Za-z]{2,}/.test(text) && !SAME.test(text.trim());

/** The texts in a file, in order: between elements, after `{…}`, as a value in `{…}`, and in attributes. */
export function findTexts(code, path) {
  const found = [];
  const add = (text) => isText(text) && found.push(text.trim().replace(/\s+/g, " "));
  visit(parseAst(code, { lang: "tsx" }, path), (node) => {
    if (node.type === "JSXText") add(node.value);
    if (node.type === "JSXElement" || node.type === "JSXFragment")
      for (const child of node.children)
        if (child.type === "JSXExpressionContainer") values(child.expression).forEach(add);
    if (node.type === "JSXAttribute" && READ.has(node.name.name)) values(node.value).forEach(add);
  });
  return found;
}

/** The texts that an expression may have as its value, as far as they are written in it. */
function values(node) {
  switch (node?.type) {
    case "Literal":
      return typeof node.value === "string" ? [node.value] : [];
    case "TemplateLiteral":
      return node.quasis.map((part) => part.value.cooked ?? "");
    case "JSXExpressionContainer":
      return values(node.expression);
    case "ConditionalExpression":
      return [...values(node.consequent), ...values(node.alternate)];
    case "LogicalExpression":
      return [...values(node.left), ...values(node.right)];
    default:
      return [];
  }
}

function visit(node, see) {
  if (Array.isArray(node)) for (const one of node) visit(one, see);
  else if (typeof node === "object" && node !== null) {
    if (typeof node.type === "string") see(node);
    for (const part of Object.values(node)) visit(part, see);
  }
}
