// Lets links, tabs and menu items change the page without loading it again.

import type { ReactNode } from "react";
import { I18nProvider, RouterProvider } from "react-aria-components";

interface NavigationProps {
  locale: string;
  navigate: (path: string) => void;
  children: ReactNode;
}

export function Navigation({ locale, navigate, children }: NavigationProps) {
  return (
    <I18nProvider locale={locale}>
      <RouterProvider navigate={navigate}>{children}</RouterProvider>
    </I18nProvider>
  );
}
