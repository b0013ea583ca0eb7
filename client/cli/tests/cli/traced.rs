//! Commands as part of the trace of their caller.

use leasehold_tests::{Coordinator, CoordinatorProcess, collector::Collector};

use super::{LIMIT, Ran, leasehold, output, started};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Returns the context of one of the spans of that trace, by its first digit.
fn context(digit: char) -> String {
    format!("00-{TRACE}-{digit}{}-01", &SPAN[1..])
}

/// Returns a coordinator that traces the requests that its callers trace, and exports the spans soon.
fn coordinator(collector: &Collector) -> CoordinatorProcess {
    let endpoint = collector.endpoint();
    Coordinator::process()
        .arguments(["--otlp-endpoint", &endpoint, "--trace-sample", "0"])
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50")
        .start()
}

/// Waits for a span, and says of which it is a part.
async fn parent(collector: &Collector, name: &str, said: (&str, &str)) -> String {
    let span = collector.span(name, said, LIMIT).await;
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    assert_eq!(hex(&span.trace_id), TRACE);
    hex(&span.parent_span_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_command_are_part_of_the_trace_that_it_was_started_in() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector);
    let endpoint = coordinator.endpoint();
    let tell = "echo \"$TRACEPARENT $TRACESTATE\"";
    // From the environment, as it is; a later version of it too.
    for (lock, given) in [
        ("environment", context('1')),
        ("later", format!("01-{TRACE}-{SPAN}-01-more")),
    ] {
        let mut run = leasehold(&endpoint, &["run", lock, "--", "sh", "-c", tell]);
        run.env("TRACEPARENT", &given).env("TRACESTATE", "a=b");
        let run = Ran::of(&mut run);
        assert_eq!(run.out, format!("{given} a=b\n"), "{}", run.err);
        for kind in ["acquire", "release"] {
            let parent = parent(&collector, kind, ("leasehold.lock", lock)).await;
            assert_eq!(parent, given[36..52], "{kind} of {lock}");
        }
    }

    // The option comes before it, and has no state of vendors.
    let two = context('2');
    let mut run = leasehold(
        &endpoint,
        &[
            "run",
            "option",
            "--traceparent",
            &two,
            "--",
            "sh",
            "-c",
            tell,
        ],
    );
    run.env("TRACEPARENT", context('1'))
        .env("TRACESTATE", "a=b");
    assert_eq!(Ran::of(&mut run).out, format!("{two} \n"));
    let asked = parent(&collector, "acquire", ("leasehold.lock", "option")).await;
    assert_eq!(asked, two[36..52]);
    let mut get = leasehold(&endpoint, &["get", "option"]);
    get.env("TRACEPARENT", context('3'))
        .env("TRACESTATE", "a=b");
    Ran::of(&mut get).ended(0);
    let name = "leasehold.v1.AdminService/GetLock";
    let asked = parent(&collector, name, ("rpc.method", "GetLock")).await;
    assert_eq!(asked, context('3')[36..52]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_measurement_is_in_no_trace_that_it_was_merely_started_in() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector);
    let endpoint = coordinator.endpoint();
    // Few cycles: each is traced where that is asked for.
    let bench = [
        "bench",
        "--duration",
        "1s",
        "--clients",
        "1",
        "--hold",
        "200ms",
        "--quiet",
    ];
    let mut started = leasehold(&endpoint, &bench);
    started.env("TRACEPARENT", context('1'));
    let started = Ran::of(&mut started);
    started.ended(0);
    let asked_for = context('2');
    let args = [&bench[..], &["--traceparent", &asked_for]].concat();
    output(&endpoint, &args).ended(0);
    let said = ("leasehold.outcome", "granted");
    parent(&collector, "acquire", said).await;
    let spans = collector.spans();
    let of_the_other = spans.iter().filter(|span| span.parent_span_id[0] >> 4 == 1);
    // A part's parent is one of the coordinator's own, at random.
    let of_the_other = of_the_other.filter(|span| span.kind == 2);
    assert_eq!(of_the_other.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_context_is_refused_as_an_option_and_ignored_in_the_environment() {
    let (_coordinator, endpoint) = started();
    for bad in [
        "nonsense",
        "",
        &format!("ff-{TRACE}-{SPAN}-01"),
        &format!("00-{TRACE}-0000000000000000-01"),
    ] {
        let refused = output(&endpoint, &["ls", "--traceparent", bad]);
        assert_eq!(refused.code, Some(64), "{bad}");
        let told = refused.err;
        assert!(told.contains("expected a W3C traceparent"), "{told}");

        let tell = ["run", "a", "--", "sh", "-c", "echo \"<$TRACEPARENT>\""];
        let mut ignored = leasehold(&endpoint, &tell);
        let ignored = Ran::of(ignored.env("TRACEPARENT", bad));
        ignored.ended(0);
        assert_eq!(ignored.out, format!("<{bad}>\n"));
        let told = ignored.err;
        // An empty one is none.
        let is_told = told.contains("ignored the variable TRACEPARENT: expected a W3C traceparent");
        assert_eq!(is_told, !bad.is_empty(), "{told}");
    }
}
