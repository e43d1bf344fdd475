//! The priority of scripts: low while other threads need the CPU.

/// Niceness of threads that run scripts. Under contention they get a tenth of the CPU time of the engine's threads.
#[cfg(target_os = "linux")]
const SCRIPT_NICENESS: i32 = 10;
/// Niceness of abandoned threads, which end when their built-in returns.
#[cfg(target_os = "linux")]
const ABANDONED_NICENESS: i32 = 19;

/// The system's id of a thread.
#[cfg(target_os = "linux")]
pub(crate) type Thread = rustix::thread::Pid;
/// On other systems a priority belongs to a whole process, so it is not changed.
#[cfg(not(target_os = "linux"))]
pub(crate) type Thread = ();

/// Lowers the calling thread's priority. If that is not permitted, scripts run at normal priority.
#[cfg(target_os = "linux")]
pub(crate) fn lower_current() -> Thread {
    let thread = rustix::thread::gettid();
    // A server that was started with a lower priority keeps it.
    if rustix::process::getpriority_process(Some(thread)).is_ok_and(|now| now < SCRIPT_NICENESS) {
        let _ = rustix::process::setpriority_process(Some(thread), SCRIPT_NICENESS);
    }
    thread
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_current() -> Thread {}

/// Lowers the priority of an abandoned thread to the minimum.
#[cfg(target_os = "linux")]
pub(crate) fn lower_abandoned(thread: Thread) {
    let _ = rustix::process::setpriority_process(Some(thread), ABANDONED_NICENESS);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_abandoned((): Thread) {}
