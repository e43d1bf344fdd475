// From the address to a screen.

// The styles of the controls come before those of the features, which override them.
import "../ui/tokens.css";
import "../ui/ui.css";

import { QueryClientProvider, useQueryClient } from "@tanstack/react-query";
import { Component, lazy, type ReactNode, Suspense, useEffect } from "react";
import { Route, Switch, useLocation } from "wouter";
import { useMe } from "../api/me";
import { toProblem } from "../api/problem";
import { createQueryClient } from "../api/queries";
import { sessionStore, signInCodeStore } from "../api/session";
import { Shell } from "../features/shell/Shell";
import { Logo } from "../features/shell/SideBar";
import { SignIn } from "../features/signin/SignIn";
import { intlLocale } from "../lib/i18n";
import { useStore } from "../lib/store";
import { Navigation, Problem, Skeleton, Toasts } from "../ui";
import { NothingHere } from "./NothingHere";
import { RunsPage } from "./RunsPage";

const OverviewPage = lazy(() => import("./OverviewPage"));
const RunPage = lazy(() => import("./RunPage"));
const DiffPage = lazy(() => import("./DiffPage"));
const WorkflowsPage = lazy(() => import("./WorkflowsPage"));
const WorkflowPage = lazy(() => import("./WorkflowPage"));
const InboxPage = lazy(() => import("./InboxPage"));
const WorkersPage = lazy(() => import("./WorkersPage"));
const NodesPage = lazy(() => import("./NodesPage"));
const AccessPage = lazy(() => import("./AccessPage"));

const client = createQueryClient();

export function App() {
  const [, navigate] = useLocation();
  return (
    <Navigation locale={intlLocale()} navigate={navigate}>
      <QueryClientProvider client={client}>
        <Guard onError={(error) => <Problem problem={toProblem(error)} onRetry={() => window.location.reload()} />}>
          <Entrance />
        </Guard>
        <Toasts />
      </QueryClientProvider>
    </Navigation>
  );
}

/** Screens for callers, the sign-in for everyone else. */
function Entrance() {
  const session = useStore(sessionStore);
  const queries = useQueryClient();
  const code = useStore(signInCodeStore);
  useEffect(() => {
    // What another caller may see must not stay in the cache.
    if (session === null) queries.clear();
  }, [session, queries]);
  useEffect(() => {
    // A code can be used once. A caller who is signed in stays so.
    if (session !== null && code !== null) signInCodeStore.set(null);
  }, [session, code]);
  if (session === null) return <SignIn code={code} logo={<Logo size={36} />} />;
  return <Screens key={session.credential} />;
}

function Screens() {
  const me = useMe();
  const [location] = useLocation();
  if (me.isLoadingError) return <Problem problem={toProblem(me.error)} onRetry={() => void me.refetch()} />;
  if (me.data === undefined) return <Skeleton rows={12} />;
  return (
    <Shell>
      <Guard
        key={location}
        onError={(error) => <Problem problem={toProblem(error)} onRetry={() => window.location.reload()} />}
      >
        <Suspense fallback={<Skeleton rows={16} />}>
          <Switch>
            <Route path="/" component={OverviewPage} />
            <Route path="/sign-in" component={RunsPage} />
            <Route path="/runs" component={RunsPage} />
            <Route path="/runs/:a/diff/:b">{({ a, b }) => <DiffPage a={a} b={b} />}</Route>
            <Route path="/runs/:id">{({ id }) => <RunPage key={id} id={id} />}</Route>
            <Route path="/workflows" component={WorkflowsPage} />
            <Route path="/workflows/:name">{({ name }) => <WorkflowPage key={name} name={name} />}</Route>
            <Route path="/inbox" component={InboxPage} />
            <Route path="/workers" component={WorkersPage} />
            <Route path="/nodes" component={NodesPage} />
            <Route path="/access/:part">{({ part }) => <AccessPage part={part} />}</Route>
            <Route component={NothingHere} />
          </Switch>
        </Suspense>
      </Guard>
    </Shell>
  );
}

interface GuardProps {
  children: ReactNode;
  onError: (error: unknown) => ReactNode;
}

/** Shows an error of the screens inside it, instead of nothing. */
class Guard extends Component<GuardProps, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    return this.state.error === null ? this.props.children : this.props.onError(this.state.error);
  }
}
