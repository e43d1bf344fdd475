//! The database that stores all data, by its settings.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{CommandOutput, Folder, call, call_with_stdin, everstep, program, wait_for};

#[test]
fn the_data_folder_is_private_whatever_the_umask() {
    let folder = Folder::new();
    for (umask, name) in [("000", "open"), ("022", "usual"), ("077", "closed")] {
        let data = folder.path().join(name);
        let serve = "umask $1; exec \"$2\" serve --listen 127.0.0.1:0 --data \"$3\"";
        let mut command = program(Path::new("sh"));
        command.args(["-c", serve, "sh", umask]).arg(everstep().get_program()).arg(&data);
        let mut server = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777);
        wait_for("the first key", || mode(&data.join("admin.key")).ok());
        let files: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
        // A draft of another key may be gone by now.
        let modes: Vec<_> = files.iter().filter_map(|path| Some((path, mode(path).ok()?))).collect();
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(files.iter().any(|path| path.ends_with("everstep.db-wal")), "{files:?}");
        assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "umask {umask}: {modes:?}");
        assert_eq!(mode(&data).unwrap(), 0o700, "umask {umask}");
    }
}

#[test]
fn a_data_folder_that_others_share_is_refused() {
    let folder = Folder::new();
    folder.write("notes.txt", "mine");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = call(&["serve", "--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]);
    output.exits(3).says("other users may enter it").says("chmod 700");
}

#[test]
fn a_data_folder_that_cannot_be_created_is_reported() {
    let folder = Folder::new();
    let file = folder.write("afile", "");
    let inside = folder.at("afile/data");
    let commands = [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["keys", "list"],
        &["keys", "create", "--name", "x", "--role", "admin"],
        &["nodes"],
    ];
    for command in commands {
        let output = call(&[command, &["--data", &file]].concat());
        output.exits(3).says(&format!("the data folder {file} is a file; choose another folder with --data"));
        let output = call(&[command, &["--data", &inside]].concat());
        output.exits(3).says(&format!("the data folder {inside} cannot be created: ")).says("choose another folder");
    }
}

#[test]
fn a_command_that_only_reads_does_not_create_a_database() {
    let folder = Folder::new();
    let (missing, empty) = (folder.path().join("nonex"), folder.path().join("empty"));
    std::fs::create_dir(&empty).unwrap();
    let commands = [
        &["keys", "list"][..],
        &["keys", "revoke", "00000000-0000-7000-8000-000000000000"],
        &["workspaces", "list"],
        &["secrets", "list"],
        &["secrets", "delete", "x"],
        &["nodes"],
    ];
    for command in commands {
        for (data, problem) in [(&missing, "does not exist"), (&empty, "contains no database")] {
            let output = call(&[command, &["--data", data.to_str().unwrap()]].concat());
            output.exits(3).says(&format!("the data folder {} {problem}; choose it with --data", data.display()));
        }
        assert!(!missing.exists() && std::fs::read_dir(&empty).unwrap().next().is_none(), "{command:?}");
    }
    let here: CommandOutput = everstep().args(["keys", "list"]).current_dir(&empty).output().unwrap().into();
    here.exits(3).says("the data folder ./data does not exist");
}

#[test]
fn a_command_that_creates_a_database_reports_its_folder() {
    let folder = Folder::new();
    let commands = [
        &["keys", "create", "--name", "x", "--role", "admin"][..],
        &["workspaces", "create", "shop"],
        &["secrets", "set", "x"],
    ];
    for (number, command) in commands.into_iter().enumerate() {
        let data = folder.at(&format!("data-{number}"));
        let args = [command, &["--data", &data]].concat();
        let said = format!("created a new database in the data folder {data}");
        call_with_stdin(&args, b"v").exits(0).says(&said);
        let again = call_with_stdin(&args, b"v");
        assert!(!again.stderr.contains("created a new database"), "{}", again.stderr);
    }
}

#[test]
fn another_kind_of_database_is_refused() {
    for command in [&["serve"][..], &["nodes"], &["keys", "create", "--name", "x", "--permissions", "workflow:view"]] {
        let output = call(&[command, &["--database-url", "mysql://me:secret@host/db"]].concat());
        output.exits(2).says("mysql://").says("postgres://user:password@host:port/name");
        assert!(!output.stderr.contains("secret"), "{}", output.stderr);
    }
    call(&["serve", "--database-url", "postgres://host"]).exits(2).says("names no database");
    call(&["serve", "--database-url", "postgres://host/db?sslmod=x"]).exits(2).says("sslmod");
}

#[test]
fn a_missing_server_is_reported_without_its_password() {
    let folder = Folder::new();
    let url = "postgres://me:secret@127.0.0.1:1/db";
    let mut command = everstep();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &folder.at("data")]);
    let output = CommandOutput::from(command.env("EVERSTEP_DATABASE_URL", url).output().unwrap());
    output.exits(3).says("PostgreSQL at 127.0.0.1:1 cannot be reached");
    assert!(!output.stderr.contains("secret"), "{}", output.stderr);
}

#[test]
fn settings_of_a_cluster_mean_nothing_on_sqlite() {
    let folder = Folder::new();
    let key = "k".repeat(32);
    let settings = [
        ("--node-lease", "2s"),
        ("--cluster-listen", "127.0.0.1:0"),
        ("--advertise-url", "http://10.0.0.7:7374"),
        ("--cluster-key", &key),
        ("--database-connections", "5"),
        ("--database-pooled=true", ""),
    ];
    for (flag, value) in settings {
        let mut args = vec!["serve", "--data", folder.path().to_str().unwrap(), flag];
        args.extend(Some(value).filter(|value| !value.is_empty()));
        let output = call(&args);
        output.exits(2).says("has an effect only with PostgreSQL").says("EVERSTEP_DATABASE_URL");
    }
    let file = folder.write("settings.toml", "[cluster]\nnode_lease = \"2s\"");
    call(&["serve", "--config", &file]).exits(2).says("EVERSTEP_NODE_LEASE");
    let url = ["serve", "--database-url", "postgres://127.0.0.1:1/db"];
    call(&[&url[..], &["--node-lease", "400ms"]].concat()).exits(2).says("at least 500 ms");
    call(&[&url[..], &["--advertise-url", "https://host:1"]].concat()).exits(2).says("plain http");
    call(&[&url[..], &["--cluster-key", "short"]].concat()).exits(2).says("at least 32 are required");
    call(&[&url[..], &["--database-connections", "1"]].concat()).exits(2).says("at least 2");
}
