//! How much of the machine scripts get while others need it: little.

/// Niceness of threads that run scripts. Under contention they get a tenth of the CPU time of the engine's threads.
#[cfg(target_os = "linux")]
const SCRIPT_NICENESS: i32 = 10;
/// Niceness of abandoned threads, which end when their built-in returns.
#[cfg(target_os = "linux")]
const ABANDONED_NICENESS: i32 = 19;

/// A thread as the system knows it.
#[cfg(target_os = "linux")]
pub(crate) type Thread = rustix::thread::Pid;
/// Elsewhere a priority belongs to a whole process, so it is left alone.
#[cfg(not(target_os = "linux"))]
pub(crate) type Thread = ();

/// Lowers the calling thread's priority. Where it may not be lowered, scripts run as fast as everything else.
#[cfg(target_os = "linux")]
pub(crate) fn lower_current() -> Thread {
    let thread = rustix::thread::gettid();
    // A server that was started with a still lower one keeps it.
    if rustix::process::getpriority_process(Some(thread)).is_ok_and(|now| now < SCRIPT_NICENESS) {
        let _ = rustix::process::setpriority_process(Some(thread), SCRIPT_NICENESS);
    }
    thread
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_current() -> Thread {}

/// Lowers the priority of an abandoned thread as far as it goes.
#[cfg(target_os = "linux")]
pub(crate) fn lower_abandoned(thread: Thread) {
    let _ = rustix::process::setpriority_process(Some(thread), ABANDONED_NICENESS);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_abandoned((): Thread) {}
