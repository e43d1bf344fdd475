// Views of one thing, of which one is shown.

import type { ReactNode } from "react";
import { Tabs as AriaTabs, Tab, TabList, TabPanel } from "react-aria-components";

interface TabsProps<T extends string> {
  label: string;
  tabs: ReadonlyArray<{ id: T; label: string; count?: ReactNode }>;
  value: T;
  onChange: (id: T) => void;
  /** The content of the selected tab. */
  children: ReactNode;
  panelClass?: string;
}

export function Tabs<T extends string>({ label, tabs, value, onChange, children, panelClass }: TabsProps<T>) {
  return (
    <AriaTabs className="ui-tabs" selectedKey={value} onSelectionChange={(key) => onChange(String(key) as T)}>
      <TabList className="ui-tablist" aria-label={label}>
        {tabs.map((tab) => (
          <Tab key={tab.id} id={tab.id} className="ui-tab">
            {tab.label}
            {tab.count}
          </Tab>
        ))}
      </TabList>
      <TabPanel key={value} id={value} className={panelClass ?? "ui-scroll"} shouldForceMount>
        {children}
      </TabPanel>
    </AriaTabs>
  );
}
