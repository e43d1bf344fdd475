// Definitions of workflows that scenarios use.

interface Node {
  id: string;
  type: string;
  [field: string]: unknown;
}

/** A graph whose nodes are in sequence. */
export function chain(...middle: Node[]) {
  const nodes: Node[] = [{ id: "start", type: "start" }, ...middle, { id: "end", type: "end" }];
  const edges = nodes.slice(1).map((node, index) => ({ source: nodes[index]?.id, target: node.id }));
  return { nodes, edges };
}

export function script(id: string, code: string, more: Record<string, unknown> = {}): Node {
  return { id, type: "javascript", config: { code }, ...more };
}

export function wait(id: string, signal: string): Node {
  return { id, type: "wait", config: { event: signal } };
}

export function approval(id: string, signal: string, match: Record<string, unknown> = {}): Node {
  return { id, type: "wait", config: { approval: signal, match, timeoutSeconds: 86_400 } };
}

export const hello = {
  nodes: [
    { id: "start", type: "start" },
    script("greet", `return "Hello, " + ctx.input.name + "!"`),
    {
      id: "end",
      type: "end",
      config: { outputParameters: [{ name: "greeting", sourceVariable: "{{ctx.jsResult}}" }] },
    },
  ],
  edges: [
    { source: "start", target: "greet" },
    { source: "greet", target: "end" },
  ],
};

export const ticket = {
  states: [
    { name: "open", title: "Open", initial: true, on: { TAKE: { title: "Take it", to: "review" } } },
    {
      name: "review",
      title: "In review",
      on: {
        APPROVE: { title: "Approve", needs: { comment: true }, to: "approved" },
        REJECT: { title: "Send back", require: { assigned: true }, to: "open" },
      },
      assign: ["people@example.com"],
    },
    { name: "approved", title: "Approved", terminal: true },
  ],
};
