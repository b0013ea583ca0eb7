//! Soak tests, which `make test` leaves to `make soak`: thousands of answers at one moment, and fifty kills of `leasehold run`.

mod many_answers;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_write_of_a_killed_run_comes_before_the_next_ones_first_fifty_times() {
    super::run_command::kill(5, 10).await;
}
