// Repeated calls, which rest while the page is hidden.

/** Calls `task` at once and then again `interval` milliseconds after each end, until the returned function is called. */
export function poll(interval, task) {
  let timer;
  let stopped = false;
  const run = async () => {
    if (!document.hidden) {
      await task();
    }
    if (!stopped) {
      timer = setTimeout(run, interval);
    }
  };
  run();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
