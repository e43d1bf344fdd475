//! The statements, one per file in `queries/sqlite`.

/// The text of a query file, by its path without the extension.
macro_rules! query {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/sqlite/", $name, ".sql"))
    };
}

pub(super) use query;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use crate::sqlite::Database;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("queries/sqlite")
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
        }
        files.sort();
        files
    }

    #[test]
    fn every_query_can_be_prepared() {
        let database = Database::in_memory().unwrap();
        let files = files(&root());
        assert!(files.len() > 40);
        for file in files {
            let sql = fs::read_to_string(&file).unwrap();
            assert!(sql.starts_with("-- "), "{} does not state its promise", file.display());
            assert_eq!(sql, sql.replace('\t', "    "), "{} has tabs", file.display());
            database.connection.prepare(&sql).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }

    #[test]
    fn every_query_is_used() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite");
        let source: String = files(&sources).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        for file in files(&root()) {
            let name = file.strip_prefix(root()).unwrap().with_extension("");
            let mention = format!("query!(\"{}\")", name.display());
            assert!(source.contains(&mention), "no code runs {}", name.display());
        }
    }

    #[test]
    fn entries_are_bound_in_the_order_that_head_and_entry_share() {
        let database = Database::in_memory().unwrap();
        let names = [":run", ":seq", ":writer", ":commit", ":at", ":kind", ":step", ":attempt", ":codec", ":payload"];
        let head = database.connection.prepare(query!("commit/3_head")).unwrap();
        let entry = database.connection.prepare(query!("commit/4_entry")).unwrap();
        for (index, name) in names.into_iter().enumerate() {
            assert_eq!(head.parameter_name(index + 1), Some(name));
            assert_eq!(entry.parameter_name(index + 1), Some(name));
        }
        assert_eq!(head.parameter_name(11), Some(":expected"));
    }

    #[test]
    fn events_are_bound_in_the_order_of_their_columns() {
        let database = Database::in_memory().unwrap();
        let insert = database.connection.prepare(query!("topics/publish/1_insert")).unwrap();
        let names = [
            ":workspace",
            ":id",
            ":topic",
            ":source",
            ":event_id",
            ":at",
            ":fanned_at",
            ":depth",
            ":subject",
            ":extensions",
            ":replay_of",
            ":replay_to",
            ":codec",
            ":data",
        ];
        assert_eq!(insert.parameter_count(), names.len());
        for (index, name) in names.into_iter().enumerate() {
            assert_eq!(insert.parameter_name(index + 1), Some(name));
        }
    }

    /// The plan of a query, a line per step.
    fn plan(database: &Database, sql: &str) -> String {
        let mut statement = database.connection.prepare(&format!("explain query plan {sql}")).unwrap();
        let lines = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        lines.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    }

    const RECORD: &str = "sqlite_autoindex_records_1 (workspace=? AND namespace=? AND key=?)";

    const EVENT: &str = "sqlite_autoindex_events_1 (workspace=? AND id=?)";

    const FILE: &str = "sqlite_autoindex_files_1 (id=?)";

    #[test]
    fn hot_queries_use_their_index() {
        let database = Database::in_memory().unwrap();
        for (sql, index) in [
            (query!("keyed_run"), "runs_keyed (workspace=? AND idempotency_scope=? AND idempotency_key=?)"),
            (query!("commit/3_head"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("commit/3_stored"), "journal_by_seq (run_id=? AND seq=?)"),
            (query!("commit/3_owner"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("commit/4_run"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("commit/4_machine"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("commit/4_wait_close"), "sqlite_autoindex_waits_1 (run_id=? AND step=?)"),
            (query!("commit/4_waits_end"), "sqlite_autoindex_waits_1 (run_id=?)"),
            (query!("commit/4_taken"), "INTEGER PRIMARY KEY (rowid=?)"),
            (query!("commit/4_addressee"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("claim_runs/1_crowd"), "runs_claimable (lane=? AND wake_at<?)"),
            (query!("claim_runs/2_workspace"), "runs_claimable_by_workspace (lane=? AND workspace>?)"),
            (query!("claim_runs/3_share"), "runs_claimable_by_workspace (lane=? AND workspace=? AND wake_at<?)"),
            (query!("claim_runs/4_oldest"), "runs_claimable (lane=? AND wake_at<?)"),
            (query!("next_wake"), "runs_claimable (lane=?)"),
            (query!("tick/2_release"), "runs_owned (owner=?)"),
            (query!("release_all/2_release"), "runs_owned (owner>?)"),
            (query!("leave/2_release"), "runs_owned (owner=?)"),
            (query!("inbox"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("journal"), "journal_by_seq (run_id=? AND seq>?)"),
            (query!("journal_origin"), "journal_by_seq (run_id=? AND seq<?)"),
            (query!("load_run/1_run"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("glance"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("arrivals"), "inbox_by_run (run_id=?)"),
            (query!("list_runs/all"), "runs_listed (workspace=? AND created_at>? AND (created_at,id)<(?,?))"),
            (
                query!("list_runs/of_workflow"),
                "runs_listed_by_workflow (workspace=? AND workflow=? AND created_at>? AND (created_at,id)<(?,?))",
            ),
            (
                query!("list_runs/of_state"),
                "runs_in_state (workspace=? AND workflow=? AND state=? AND created_at>? AND (created_at,id)<(?,?))",
            ),
            (
                query!("list_runs/of_statuses"),
                "runs_by_status (workspace=? AND status=? AND created_at>? AND (created_at,id)<(?,?))",
            ),
            (query!("list_runs/of_statuses"), "runs_running (workspace=? AND created_at>? AND (created_at,id)<(?,?))"),
            (query!("list_runs/of_statuses"), "runs USING INTEGER PRIMARY KEY (rowid=?)"),
            (
                query!("list_runs/of_workflow_statuses"),
                "runs_of_workflow_by_status (workspace=? AND workflow=? AND status=? AND created_at>? AND (created_at,id)<(?,?))",
            ),
            (
                query!("list_runs/of_workflow_statuses"),
                "runs_running (workspace=? AND created_at>? AND (created_at,id)<(?,?))",
            ),
            (query!("list_runs/of_workflow_statuses"), "runs USING INTEGER PRIMARY KEY (rowid=?)"),
            (query!("list_runs/of_origin"), "runs_by_origin (origin=? AND created_at>? AND (created_at,id)<(?,?))"),
            (
                query!("list_runs/of_error"),
                "runs_by_error (workspace=? AND <expr>=? AND created_at>? AND (created_at,id)<(?,?))",
            ),
            (
                query!("list_runs/of_term"),
                "run_terms_by_value (workspace=? AND path=? AND value=? AND created_at>? AND (created_at,run)<(?,?))",
            ),
            (query!("list_runs/of_term"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("list_runs/coverage"), "runs_listed_by_workflow (workspace=? AND workflow>?)"),
            (query!("list_runs/coverage"), "PRIMARY KEY (workspace=? AND workflow=? AND path=?)"),
            (query!("search_attributes/1_known"), "PRIMARY KEY (workspace=? AND workflow=?)"),
            (query!("search_attributes/2_delete"), "PRIMARY KEY (workspace=? AND workflow=? AND path=?)"),
            (query!("workflow"), "PRIMARY KEY (workspace=? AND workflow=?)"),
            (query!("sweep/2_terms"), "PRIMARY KEY (run=?)"),
            (query!("list_runs/of_parent"), "runs_by_parent (parent=? AND created_at>? AND (created_at,id)<(?,?))"),
            (query!("find_key"), "sqlite_autoindex_api_keys_2 (hash=?)"),
            (query!("sweep/1_runs"), "runs_expiring (expires_at<?)"),
            (query!("sweep/2_journal"), "journal_by_seq (run_id=?)"),
            (query!("sweep/4_nodes"), "runs_owned (owner=?)"),
            (query!("sweep/5_audit"), "PRIMARY KEY (workspace=? AND id<?)"),
            (query!("sweep/7_refers"), "runs_listed_by_workflow (workspace=? AND workflow=?)"),
            (query!("sweep/7_refers"), "runs_of_tests (workspace=? AND workflow=? AND version<?)"),
            (query!("sweep/8_versions"), "sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version<?)"),
            (query!("revoke_key"), "sqlite_autoindex_api_keys_1 (id=?)"),
            (query!("set_workspace_options"), "sqlite_autoindex_workspaces_1 (id=?)"),
            (query!("list_audit"), "PRIMARY KEY (workspace=? AND id>? AND id<?)"),
            (query!("resource"), "PRIMARY KEY (workspace=? AND kind=? AND name=?)"),
            (query!("resources"), "PRIMARY KEY (workspace=? AND kind=? AND name>?)"),
            (query!("delete_resource"), "PRIMARY KEY (workspace=? AND kind=? AND name=?)"),
            (query!("put_resource/1_replace"), "PRIMARY KEY (workspace=? AND kind=? AND name=?)"),
            (query!("activate_workflow"), "sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version=?)"),
            (query!("deactivate_workflow"), "PRIMARY KEY (workspace=? AND name=?)"),
            (
                query!("register_workflows/1_known"),
                "this USING INDEX sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version=?)",
            ),
            (
                query!("register_workflows/1_known"),
                "workflows USING INDEX sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version>?)",
            ),
            (query!("register_workflows/3_in_use"), "runs_listed_by_workflow (workspace=? AND workflow=?)"),
            (query!("register_workflows/3_in_use"), "runs_of_tests (workspace=? AND workflow=? AND version=?)"),
            (
                query!("register_workflows/5_forget"),
                "sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version>? AND version<?)",
            ),
            (query!("workflow_keys/find"), "PRIMARY KEY (workspace=? AND name=? AND key=?)"),
            (query!("delete_workflow/5_keys"), "PRIMARY KEY (workspace=? AND name=?)"),
            (query!("sweep/5_workflow_keys"), "workflow_keys_by_time (at<?)"),
            (query!("sweep/5_workflow_keys"), "PRIMARY KEY (workspace=? AND name=? AND key=?)"),
            (query!("delete_workflow/1_newest"), "sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version>?)"),
            (
                query!("list_workflows"),
                "workflows USING COVERING INDEX sqlite_autoindex_workflows_1 (workspace=? AND name>?)",
            ),
            (
                query!("list_workflows"),
                "latest USING INDEX sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version=?)",
            ),
            (
                query!("list_versions"),
                "sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version>? AND version<?)",
            ),
            (query!("fork_run/1_end"), "journal_by_seq (run_id=? AND seq>?)"),
            (query!("fork_run/2_run"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("fork_run/3_entries"), "journal_by_seq (run_id=? AND seq<?)"),
            (query!("delete_test_run"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("records/apply/1_namespace"), "PRIMARY KEY (workspace=? AND name=?)"),
            (query!("records/apply/1_known"), "store_changes_by_op (workspace=? AND op_key=?)"),
            (query!("records/apply/1_record"), RECORD),
            (query!("records/apply/1_last_row"), "SEARCH records"),
            (query!("records/apply/3_record_move"), "INTEGER PRIMARY KEY (rowid=?)"),
            (
                query!("records/apply/1_link"),
                "sqlite_autoindex_links_2 (workspace=? AND namespace=? AND left_type=? AND left_id=? AND right_type=? AND right_id=? AND relation=?)",
            ),
            (
                query!("records/apply/1_links_between"),
                "sqlite_autoindex_links_2 (workspace=? AND namespace=? AND left_type=? AND left_id=? AND right_type=? AND right_id=?)",
            ),
            (
                query!("records/apply/1_links_from"),
                "sqlite_autoindex_links_2 (workspace=? AND namespace=? AND left_type=? AND left_id=?)",
            ),
            (
                query!("records/apply/1_links_to"),
                "links_reversed (workspace=? AND namespace=? AND right_type=? AND right_id=?)",
            ),
            (query!("records/apply/1_link_by_id"), "sqlite_autoindex_links_1 (workspace=? AND id=?)"),
            (query!("records/apply/3_record_delete"), RECORD),
            (query!("records/apply/4_link_delete"), "sqlite_autoindex_links_1 (workspace=? AND id=?)"),
            (query!("records/get"), RECORD),
            (query!("records/list"), "sqlite_autoindex_records_1 (workspace=? AND namespace=? AND key>?)"),
            (
                query!("records/links/1_forward"),
                "sqlite_autoindex_links_2 (workspace=? AND namespace=? AND left_type=? AND left_id=? AND (right_type,right_id,relation)>(?,?,?))",
            ),
            (
                query!("records/links/2_reverse"),
                "links_reversed (workspace=? AND namespace=? AND right_type=? AND right_id=? AND (relation,left_type,left_id)>(?,?,?))",
            ),
            (
                query!("records/links/3_all"),
                "sqlite_autoindex_links_2 (workspace=? AND namespace=? AND (left_type,left_id,right_type,right_id,relation)>(?,?,?,?,?))",
            ),
            (query!("records/links/4_by_id"), "sqlite_autoindex_links_1 (workspace=? AND id=?)"),
            (query!("records/namespaces/1_list"), "PRIMARY KEY (workspace=? AND name>?)"),
            (query!("records/namespaces/2_one"), "PRIMARY KEY (workspace=? AND name=?)"),
            (query!("records/changes"), "PRIMARY KEY (workspace=? AND namespace=? AND change>?)"),
            (query!("records/expired"), "records_expiring (expires_at<?)"),
            (query!("records/sweep_changes/1_due"), "store_changes_expiring (expires_at<?)"),
            (query!("records/sweep_changes/1_due"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("records/sweep_changes/2_delete"), "PRIMARY KEY (workspace=? AND namespace=? AND change=?)"),
            (query!("records/sweep_changes/3_postpone"), "PRIMARY KEY (workspace=? AND namespace=? AND change=?)"),
            (query!("topics/publish/2_known"), "events_by_source (workspace=? AND source=? AND event_id=?)"),
            (query!("topics/event"), EVENT),
            (query!("topics/list_events/1_all"), "sqlite_autoindex_events_1 (workspace=? AND id>? AND id<?)"),
            (query!("topics/list_events/2_of_topic"), "events_by_topic (workspace=? AND topic=? AND id>? AND id<?)"),
            (query!("topics/events_since"), "events_by_topic (workspace=? AND topic=? AND id>?)"),
            (query!("topics/open_events"), "events_open (id>? AND id<?)"),
            (query!("topics/event_results"), "sqlite_autoindex_event_results_1 (event=? AND slice>?)"),
            (query!("topics/fan_out/1_gate"), EVENT),
            (query!("topics/subscription"), "sqlite_autoindex_subscriptions_1 (workspace=? AND id=?)"),
            (query!("topics/change_subscription"), "sqlite_autoindex_subscriptions_1 (workspace=? AND id=?)"),
            (query!("topics/pause_subscription"), "sqlite_autoindex_subscriptions_1 (workspace=? AND id=?)"),
            (query!("topics/delete_subscription"), "sqlite_autoindex_subscriptions_1 (workspace=? AND id=?)"),
            (query!("topics/list_subscriptions/1_all"), "sqlite_autoindex_subscriptions_1 (workspace=? AND id>?)"),
            (
                query!("topics/list_subscriptions/2_of_pattern"),
                "subscriptions_by_head (workspace=? AND head=? AND id>?)",
            ),
            (query!("topics/subscriptions_of"), "subscriptions_by_head (workspace=? AND head=? AND id>?)"),
            (query!("topics/triggers/1_active"), "PRIMARY KEY (workspace=? AND name=?)"),
            (query!("topics/triggers/1_active"), "sqlite_autoindex_workflows_1 (workspace=? AND name=? AND version=?)"),
            (query!("topics/triggers/3_delete"), "sqlite_autoindex_subscriptions_1 (workspace=? AND id=?)"),
            (
                query!("topics/matching_waits/1_unhashed"),
                "waits_by_shape (workspace=? AND event=? AND shape_hash=? AND match_hash=? AND (run_id,step)>(?,?))",
            ),
            (query!("topics/matching_waits/2_shapes"), "waits_by_shape (workspace=? AND event=? AND shape_hash>?)"),
            (query!("topics/matching_waits/2_shapes"), "waits_by_shape (workspace=? AND event=? AND shape_hash=?)"),
            (
                query!("topics/matching_waits/3_hashed"),
                "waits_by_shape (workspace=? AND event=? AND shape_hash=? AND match_hash=? AND (run_id,step)>(?,?))",
            ),
            (query!("topics/matching_waits/4_all"), "waits_by_shape (workspace=? AND event=? AND"),
            (query!("topics/sweep_events/1_old"), "sqlite_autoindex_events_1 (workspace=? AND id<?)"),
            (query!("topics/sweep_events/2_results"), "sqlite_autoindex_event_results_1 (event=?)"),
            (query!("topics/sweep_events/3_event"), EVENT),
            (query!("commit/4_file"), FILE),
            (query!("files/begin_file/1_used"), "files_unbound (workspace=? AND uploaded_by=?)"),
            (query!("files/add_chunk/1_unfinished"), FILE),
            (query!("files/finish_file/1_finish"), FILE),
            (query!("files/delete_file/1_unfinished"), FILE),
            (query!("files/delete_file/1_unfinished"), "sqlite_autoindex_file_chunks_1 (file=?)"),
            (query!("files/file"), FILE),
            (query!("files/chunk"), "sqlite_autoindex_file_chunks_1 (file=? AND chunk=?)"),
            (query!("files/reserve_files/1_found"), FILE),
            (query!("files/reserve_files/2_reserve"), FILE),
            (query!("files/sweep_files/1_due"), "files_expiring (expires_at<?)"),
            (query!("files/sweep_files/1_due"), "sqlite_autoindex_runs_1 (id=?)"),
            (query!("files/sweep_files/2_keep"), FILE),
            (query!("files/sweep_files/3_chunks"), "sqlite_autoindex_file_chunks_1 (file=? AND chunk=?)"),
            (query!("files/sweep_files/4_delete"), FILE),
        ] {
            let plan = plan(&database, sql);
            assert!(plan.contains(index), "{sql}\nis planned as\n{plan}\nwithout\n{index}");
            let tables = [
                "runs",
                "journal",
                "run_terms",
                "search_attributes",
                "records",
                "links",
                "store_changes",
                "store_namespaces",
                "events",
                "subscriptions",
                "waits",
                "files",
                "file_chunks",
                "workflow_keys",
            ];
            for table in tables {
                assert!(!plan.lines().any(|line| line.ends_with(&format!("SCAN {table}"))), "{sql}\nscans\n{plan}");
            }
            assert!(!plan.contains("TEMP B-TREE"), "{sql}\nsorts\n{plan}");
        }
    }
}
