//! Put-if-absent: three answers, whatever the store says.

use std::time::Duration;

use bytes::Bytes;

use super::fixture::{Calls, Fixture, TIMEOUT};
use crate::store::faulty::{Fault, Method};
use crate::store::{PutAnswer, put_if_absent};
use crate::{ErrorKind, Result};

const PATH: &str = "my table/_delta_log/00000000000000000007.json";

super::for_every_store!(
    an_absent_object_becomes_ours,
    an_object_of_another_is_theirs,
    a_put_that_landed_before_its_error_is_ours,
    a_put_that_did_not_land_is_sent_again,
    exists_is_ours_when_our_own_bytes_are_there,
    a_409_without_an_object_is_sent_again,
    a_409_for_ever_is_an_error,
    a_put_that_lands_while_it_is_sent_again_is_ours_once,
    a_refusal_is_an_error_at_once,
    a_refusal_after_a_put_that_landed_is_ours,
    a_refusal_after_a_put_that_did_not_land_is_an_error,
    a_refusal_after_an_unclear_put_that_cannot_be_read_is_unknown,
    a_refusal_after_a_lost_race_is_theirs,
    reads_that_fail_for_a_while_are_waited_for,
    reads_that_fail_until_the_deadline_leave_it_unknown,
    puts_without_an_answer_until_the_deadline_leave_it_unknown,
    what_was_found_by_reading_is_made_durable,
    what_cannot_be_made_durable_is_unknown,
);

fn put(fixture: &Fixture, faults: &[Fault]) -> Result<PutAnswer> {
    fixture.put_if_absent(&fixture.with_puts(faults), PATH, "ours")
}

fn is_ours(fixture: &Fixture) -> bool {
    fixture.get(PATH) == Some(Bytes::from_static(b"ours"))
}

fn an_absent_object_becomes_ours(fixture: &Fixture) {
    assert!(matches!(fixture.put_if_absent(&*fixture.store, PATH, "ours"), Ok(PutAnswer::Mine)));
    assert!(is_ours(fixture));
}

fn an_object_of_another_is_theirs(fixture: &Fixture) {
    fixture.put_if_absent(&*fixture.store, PATH, "theirs").unwrap();
    for fault in [Fault::Pass, Fault::AppliedUnclear, Fault::NotAppliedUnclear, Fault::NotAppliedExists] {
        let Ok(PutAnswer::Theirs(winner)) = put(fixture, &[fault]) else { panic!("{fault:?}") };
        assert_eq!(winner, "theirs");
    }
}

fn a_put_that_landed_before_its_error_is_ours(fixture: &Fixture) {
    assert!(matches!(put(fixture, &[Fault::AppliedUnclear]), Ok(PutAnswer::Mine)));
    assert!(is_ours(fixture));
}

fn a_put_that_did_not_land_is_sent_again(fixture: &Fixture) {
    assert!(matches!(put(fixture, &[Fault::NotAppliedUnclear; 3]), Ok(PutAnswer::Mine)));
    assert!(is_ours(fixture));
}

fn exists_is_ours_when_our_own_bytes_are_there(fixture: &Fixture) {
    assert!(matches!(put(fixture, &[Fault::AppliedExists]), Ok(PutAnswer::Mine)));
    assert!(is_ours(fixture));
}

fn a_409_without_an_object_is_sent_again(fixture: &Fixture) {
    assert!(matches!(put(fixture, &[Fault::NotAppliedExists; 2]), Ok(PutAnswer::Mine)));
    assert!(is_ours(fixture));
}

fn a_409_for_ever_is_an_error(fixture: &Fixture) {
    let error = put(fixture, &[Fault::NotAppliedExists; 10_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.render().contains("says that") && error.render().contains("limit 900 s"), "{}", error.render());
    assert_eq!(fixture.get(PATH), None);
}

fn a_put_that_lands_while_it_is_sent_again_is_ours_once(fixture: &Fixture) {
    // The first request lands while the second one, which is lost, is on its way; the third meets it.
    let faults = [Fault::AppliedLater(Duration::from_millis(1)), Fault::NotAppliedUnclear];
    assert!(matches!(put(fixture, &faults), Ok(PutAnswer::Mine)));
    assert!(is_ours(fixture));
}

fn a_refusal_is_an_error_at_once(fixture: &Fixture) {
    assert_eq!(put(fixture, &[Fault::Refused]).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(fixture.get(PATH), None);
    assert_eq!(fixture.seam().elapsed(), Duration::ZERO);
}

fn a_refusal_after_a_put_that_landed_is_ours(fixture: &Fixture) {
    // Landed late: absent when it was read back, there when the second put is refused.
    let faults = [Fault::AppliedLater(Duration::from_nanos(1)), Fault::Refused];
    let reads = Calls::default();
    let seen = reads.clone();
    let mut puts = faults.into_iter();
    let store = fixture.with_rule(move |call| {
        seen.note(call);
        if call.method == Method::PutOnce { puts.next().unwrap_or(Fault::Pass) } else { Fault::Pass }
    });
    assert!(matches!(fixture.put_if_absent(&store, PATH, "ours"), Ok(PutAnswer::Mine)));
    assert_eq!(reads.methods(), [Method::PutOnce, Method::Get, Method::PutOnce, Method::Get, Method::MakeDurable]);
}

fn a_refusal_after_a_put_that_did_not_land_is_an_error(fixture: &Fixture) {
    let error = put(fixture, &[Fault::NotAppliedUnclear, Fault::Refused]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(fixture.get(PATH), None);
}

fn a_refusal_after_an_unclear_put_that_cannot_be_read_is_unknown(fixture: &Fixture) {
    let (mut puts, mut gets) = (0, 0);
    let store = fixture.with_rule(move |call| match call.method {
        Method::PutOnce => {
            puts += 1;
            if puts == 1 { Fault::NotAppliedUnclear } else { Fault::Refused }
        }
        Method::Get => {
            gets += 1;
            if gets == 1 { Fault::Pass } else { Fault::Refused }
        }
        _ => Fault::Pass,
    });
    let Ok(PutAnswer::Unknown(error)) = fixture.put_if_absent(&store, PATH, "ours") else { panic!("is unknown") };
    assert!(error.render().contains("was refused by a test"), "{}", error.render());
}

fn a_refusal_after_a_lost_race_is_theirs(fixture: &Fixture) {
    let inner = std::sync::Arc::clone(&fixture.store);
    let mut puts = 0;
    let store = fixture.with_rule(move |call| {
        if call.method != Method::PutOnce {
            return Fault::Pass;
        }
        puts += 1;
        if puts == 1 {
            return Fault::NotAppliedUnclear;
        }
        use futures::FutureExt;
        let _ = inner.put(PATH, Bytes::from_static(b"theirs")).now_or_never().expect("no waiting");
        Fault::Refused
    });
    assert!(matches!(fixture.put_if_absent(&store, PATH, "ours"), Ok(PutAnswer::Theirs(winner)) if winner == "theirs"));
}

fn reads_that_fail_for_a_while_are_waited_for(fixture: &Fixture) {
    let store = fixture.with_rule(|call| match call.method {
        Method::PutOnce => Fault::AppliedUnclear,
        _ if call.at < Duration::from_secs(600) => Fault::NotAppliedUnclear,
        _ => Fault::Pass,
    });
    assert!(matches!(fixture.put_if_absent(&store, PATH, "ours"), Ok(PutAnswer::Mine)));
    assert!(fixture.seam().elapsed() >= Duration::from_secs(600));
}

fn reads_that_fail_until_the_deadline_leave_it_unknown(fixture: &Fixture) {
    let store = fixture.with_rule(|call| match call.method {
        Method::PutOnce => Fault::AppliedUnclear,
        _ => Fault::NotAppliedUnclear,
    });
    let Ok(PutAnswer::Unknown(error)) = fixture.put_if_absent(&store, PATH, "ours") else { panic!("is unknown") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.render().contains("it is not known whether"), "{}", error.render());
    assert!(is_ours(fixture), "it is there after all, and must not have been deleted");
    assert_eq!(fixture.seam().elapsed(), TIMEOUT);
}

fn puts_without_an_answer_until_the_deadline_leave_it_unknown(fixture: &Fixture) {
    let store = fixture.with_rule(|call| match call.method {
        Method::PutOnce => Fault::Slow(Duration::from_secs(1_000_000)),
        _ => Fault::Pass,
    });
    let seam = fixture.seam();
    let work = put_if_absent(&store, PATH, Bytes::from_static(b"ours"), TIMEOUT, &seam);
    assert!(matches!(fixture.run(work), Ok(PutAnswer::Unknown(_))));
    assert_eq!(seam.elapsed(), TIMEOUT);
}

fn what_was_found_by_reading_is_made_durable(fixture: &Fixture) {
    let calls = Calls::default();
    let seen = calls.clone();
    let store = fixture.with_rule(move |call| {
        seen.note(call);
        if call.method == Method::PutOnce { Fault::AppliedUnclear } else { Fault::Pass }
    });
    assert!(matches!(fixture.put_if_absent(&store, PATH, "ours"), Ok(PutAnswer::Mine)));
    assert_eq!(calls.methods(), [Method::PutOnce, Method::Get, Method::MakeDurable]);
}

fn what_cannot_be_made_durable_is_unknown(fixture: &Fixture) {
    let store = fixture.with_rule(|call| match call.method {
        Method::PutOnce => Fault::AppliedUnclear,
        Method::MakeDurable => Fault::NotAppliedUnclear,
        _ => Fault::Pass,
    });
    assert!(matches!(fixture.put_if_absent(&store, PATH, "ours"), Ok(PutAnswer::Unknown(_))));
}
