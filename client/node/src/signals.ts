/** Aborts the controller with the first of these signals that is aborted, until the returned function is called. */
export function follow(
  controller: AbortController,
  ...signals: readonly (AbortSignal | undefined)[]
): () => void {
  const ends = signals.map((signal) => {
    const abort = () => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) {
      abort();
    }
    return () => signal?.removeEventListener("abort", abort);
  });
  return () => {
    for (const end of ends) {
      end();
    }
  };
}
