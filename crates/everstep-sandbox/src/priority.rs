//! How much of the machine scripts get while others need it: little.

/// For threads that run scripts. They have a tenth of what the engine's threads have when both want all.
#[cfg(target_os = "linux")]
const SCRIPTS: i32 = 10;
/// For threads that were given up, and end when their built-in does.
#[cfg(target_os = "linux")]
const GIVEN_UP: i32 = 19;

/// A thread as the system knows it.
#[cfg(target_os = "linux")]
pub(crate) type Thread = rustix::thread::Pid;
/// Elsewhere a priority belongs to a whole process, so it is left alone.
#[cfg(not(target_os = "linux"))]
pub(crate) type Thread = ();

/// Lowers the calling thread's priority. Where it may not be lowered, scripts run as fast as everything else.
#[cfg(target_os = "linux")]
pub(crate) fn lower() -> Thread {
    let thread = rustix::thread::gettid();
    // A server that was started with a still lower one keeps it.
    if rustix::process::getpriority_process(Some(thread)).is_ok_and(|now| now < SCRIPTS) {
        let _ = rustix::process::setpriority_process(Some(thread), SCRIPTS);
    }
    thread
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lower() -> Thread {}

/// Lowers the priority of a thread that was given up as far as it goes.
#[cfg(target_os = "linux")]
pub(crate) fn give_up(thread: Thread) {
    let _ = rustix::process::setpriority_process(Some(thread), GIVEN_UP);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn give_up((): Thread) {}
