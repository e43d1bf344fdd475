// Icons of one set: 16 px, a line of 1.5 px.

const SHAPES = {
  overview: "M2.5 2.5h4.5v5H2.5zM9 2.5h4.5v3H9zM9 7.5h4.5v6H9zM2.5 9.5h4.5v4H2.5z",
  runs: "M2.5 4h11M2.5 8h7M2.5 12h9",
  workflow: "M3 2.5h4v4H3zM9 9.5h4v4H9zM5 6.5v3a2 2 0 0 0 2 2h2",
  inbox: "M2.5 9.5 4 3h8l1.5 6.5v3.5h-11zM2.5 9.5H6l.75 1.5h2.5L10 9.5h3.5",
  worker: "M5 5h6v6H5zM8 2v3M8 11v3M2 8h3M11 8h3",
  node: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  key: "M10.5 2.5a3 3 0 1 1-2.6 4.5L3 12v1.5h2V12h1.5v-1.5L8 9M11 5.5h.01",
  lock: "M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  database:
    "M3 4c0-1 2.2-1.75 5-1.75S13 3 13 4s-2.2 1.75-5 1.75S3 5 3 4ZM3 4v8c0 1 2.2 1.75 5 1.75S13 13 13 12V4M3 8c0 1 2.2 1.75 5 1.75S13 9 13 8",
  query: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9ZM10.3 10.3l3.2 3.2M5.5 7h3",
  workspace: "M2.5 13.5v-8L8 2.5l5.5 3v8zM6.5 13.5v-4h3v4",
  audit: "M4 2.5h6l2.5 2.5v8.5H4zM6.5 7h3.5M6.5 10h3.5",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9ZM10.3 10.3l3.2 3.2",
  close: "m4 4 8 8M12 4l-8 8",
  check: "m3 8.5 3.2 3.2L13 5",
  minus: "M3.5 8h9",
  plus: "M8 3v10M3 8h10",
  chevronDown: "m4 6 4 4 4-4",
  chevronRight: "m6 4 4 4-4 4",
  chevronLeft: "m10 4-4 4 4 4",
  chevronUp: "m4 10 4-4 4 4",
  copy: "M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  stop: "M4 4h8v8H4z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  fork: "M4.5 3v10M4.5 9.5c4 0 6.5-1 6.5-5M4.5 3h.01M11 3.5h.01",
  download: "M8 2.5v7.5M4.5 7 8 10.5 11.5 7M3 13.5h10",
  filter: "M2.5 4h11M4.5 8h7M6.5 12h3",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  clock: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11ZM8 5v3l2 1.5",
  alert: "M8 2.5 14 13H2zM8 6.5v3M8 11.3h.01",
  info: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11ZM8 7.5V11M8 5.2h.01",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5Z",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6ZM8 1.8v1M8 13.2v1M1.8 8h1M13.2 8h1M3.6 3.6l.7.7M11.7 11.7l.7.7M3.6 12.4l.7-.7M11.7 4.3l.7-.7",
  monitor: "M2.5 3h11v7.5h-11zM5.5 13.5h5M8 10.5v3",
  link: "M6.5 9.5 9.5 6.5M7 5l1.5-1.5a2.5 2.5 0 0 1 4 0 2.5 2.5 0 0 1 0 4L11 9M5 7 3.5 8.5a2.5 2.5 0 0 0 0 4 2.5 2.5 0 0 0 4 0L9 11",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  signOut: "M9.5 2.5h-6v11h6M7 8h7M11.5 5.5 14 8l-2.5 2.5",
  arrowRight: "M3 8h10M9 4l4 4-4 4",
  send: "m2.5 8 11-5-4 10.5-2.2-4.3z",
  compare: "M5 2.5v11M11 2.5v11M2.5 5h5M8.5 11h5",
  upload: "M8 10.5V3M4.5 6.5 8 3l3.5 3.5M3 13.5h10",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
  globe: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11ZM2.5 8h11M8 2.5c2 2 2 9 0 11M8 2.5c-2 2-2 9 0 11",
  code: "m5.5 5-3 3 3 3M10.5 5l3 3-3 3",
  branch: "M8 2.5 13.5 8 8 13.5 2.5 8z",
  loop: "M4 6a4.5 4.5 0 0 1 8-.5M12 10a4.5 4.5 0 0 1-8 .5M12 2.5v3H9M4 13.5v-3h3",
  scope: "M5.5 2.5h-2v11h2M10.5 2.5h2v11h-2",
  wait: "M4 2.5h8M4 13.5h8M5 2.5v2.2L8 8l3-3.3V2.5M5 13.5v-2.2L8 8l3 3.3v2.2",
  transform: "M2.5 5h8M8 2.5 10.5 5 8 7.5M13.5 11h-8M8 8.5 5.5 11 8 13.5",
  end: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11ZM6 6h4v4H6z",
  noop: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11Z",
  sidebar: "M2.5 3h11v10h-11zM6.5 3v10",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="ui-icon" width={size} height={size} viewBox="0 0 16 16" fill="none" aria-hidden="true">
      <path d={SHAPES[name]} stroke="currentColor" strokeWidth={1.5} strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}

const KIND_ICONS: Record<string, IconName> = {
  start: "play",
  end: "end",
  http: "globe",
  javascript: "code",
  condition: "branch",
  loop: "loop",
  scope: "scope",
  wait: "wait",
  delay: "clock",
  sleep: "clock",
  transform: "transform",
  workflow: "workflow",
  call: "workflow",
  dataQuery: "database",
  noop: "noop",
  run: "code",
};

/** The icon of a kind of node. */
export function kindIcon(kind: string | null | undefined): IconName {
  return (kind && KIND_ICONS[kind]) || "noop";
}
