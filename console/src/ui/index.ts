// The components of the console. Only this folder imports react-aria-components.
//
// Modules without side effects only, as package.json declares: each page then loads the components that it uses, not all.

export { Button, type ButtonProps } from "./Button";
export { Checkbox, Switch } from "./Checkbox";
export { type Chip, Chips, Tag } from "./Chips";
export { type Command, CommandDialog } from "./CommandDialog";
export { CodeBlock, Copyable, CopyButton } from "./Copy";
export { DateTime, parseMoment } from "./DateTime";
export { Confirm, Dialog, Drawer } from "./Dialog";
export { Icon, type IconName, kindIcon } from "./Icon";
export { JsonTree } from "./JsonTree";
export { Kbd } from "./Kbd";
export { Link } from "./Link";
export { Menu, type MenuEntry } from "./Menu";
export { Meter } from "./Meter";
export { Navigation } from "./Navigation";
export { Card, Facts, Page } from "./Page";
export { Pressable } from "./Pressable";
export { rowAfterKey } from "./rowKeys";
export { Segmented } from "./Segmented";
export { ComboBox, type Option, Select } from "./Select";
export { Slider } from "./Slider";
export { Status, StatusMark } from "./Status";
export { Empty, Note, Problem, type ProblemFacts, Skeleton } from "./states";
export { type Column, type Selection, Table } from "./Table";
export { Tabs } from "./Tabs";
export { NumberField, TextField } from "./TextField";
export { Countdown, Duration, Moment, Time } from "./Time";
export { showToast, Toasts } from "./Toast";
export { Tooltip } from "./Tooltip";
export { Tree, type TreeRow } from "./Tree";
