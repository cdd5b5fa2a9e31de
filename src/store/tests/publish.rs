//! The commit loop, one writer at a time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;

use super::fixture::{Calls, Fixture, TIMEOUT, Writer, log};
use crate::ErrorKind;
use crate::store::faulty::{Fault, Method};
use crate::store::{Published, Store, publish};

super::for_every_store!(
    the_first_object_of_a_log_is_number_0,
    the_next_object_follows_its_predecessor,
    winners_are_read_in_turn_and_without_a_listing,
    our_own_object_among_the_winners_ends_the_loop,
    an_unclear_put_that_landed_is_published_once,
    a_log_that_is_gone_before_the_put_takes_nothing,
    a_log_that_is_gone_during_a_slow_put_is_left_as_it_was,
    a_stray_object_is_removed_even_when_it_was_found_by_reading,
    somebody_elses_object_in_a_log_that_is_gone_stays,
    a_slow_put_counts_when_its_predecessor_is_still_there,
    a_quick_put_needs_no_second_look,
    a_log_cleaned_while_we_slept_is_followed_at_its_new_end,
    a_log_that_grew_again_to_the_same_length_is_noticed,
    a_new_log_does_not_begin_before_a_cleaned_one,
    others_that_always_come_first_are_a_conflict_at_the_deadline,
    a_log_that_cannot_be_read_is_unavailable_at_the_deadline,
    a_log_that_may_not_be_read_is_denied_at_once,
    an_answer_that_never_comes_is_unknown_and_names_the_number,
    pauses_grow_and_are_capped,
);

#[track_caller]
fn assert_at(published: crate::Result<Published>, expected: u64) {
    match published {
        Ok(Published::At { number, .. }) => assert_eq!(number, expected),
        other => panic!("{other:?}"),
    }
}

fn the_first_object_of_a_log_is_number_0(fixture: &Fixture) {
    assert_at(fixture.publish(&*fixture.store, 0, &mut Writer::new("a")), 0);
    assert_eq!(fixture.log(), [(0, "a 1".to_owned())]);
}

fn the_next_object_follows_its_predecessor(fixture: &Fixture) {
    fixture.fill(0..3);
    let calls = Calls::default();
    let seen = calls.clone();
    let store = fixture.with_rule(move |call| {
        seen.note(call);
        Fault::Pass
    });
    assert_at(fixture.publish(&store, 3, &mut Writer::new("a")), 3);
    assert_eq!(calls.methods(), [Method::Head, Method::PutOnce], "two requests are what a commit costs");
}

fn winners_are_read_in_turn_and_without_a_listing(fixture: &Fixture) {
    fixture.fill(0..6);
    let calls = Calls::default();
    let seen = calls.clone();
    let store = fixture.with_rule(move |call| {
        seen.note(call);
        Fault::Pass
    });
    let mut writer = Writer::new("a");
    assert_at(fixture.publish(&store, 2, &mut writer), 6);
    assert_eq!(writer.lost.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(writer.lost[3].1, "other 5");
    assert_eq!(writer.attempts, 2);
    assert_eq!((calls.count(Method::List), calls.count(Method::PutOnce), calls.count(Method::Head)), (0, 2, 1));
}

fn our_own_object_among_the_winners_ends_the_loop(fixture: &Fixture) {
    fixture.fill(0..3);
    fixture.run(fixture.store.put(&log().path(3), Bytes::from_static(b"a 99"))).unwrap();
    assert_at(fixture.publish(&*fixture.store, 3, &mut Writer::new("a")), 3);
    assert_at(fixture.publish(&*fixture.store, 1, &mut Writer::new("a")), 3);
    assert_eq!(fixture.log().len(), 4);
}

fn an_unclear_put_that_landed_is_published_once(fixture: &Fixture) {
    fixture.fill(0..1);
    assert_at(fixture.publish(&fixture.with_puts(&[Fault::AppliedUnclear]), 1, &mut Writer::new("a")), 1);
    assert_eq!(fixture.log(), [(0, "other 0".to_owned()), (1, "a 1".to_owned())]);
}

fn a_log_that_is_gone_before_the_put_takes_nothing(fixture: &Fixture) {
    fixture.fill([0, 1]);
    let mut writer = Writer::new("a");
    let error = fixture.publish(&*fixture.store, 7, &mut writer).unwrap_err();
    assert_eq!(error.message(), "the table was replaced");
    assert_eq!((writer.replaced, fixture.log().len()), (vec![7], 2));
}

/// Deletes the log's objects in `numbers` at the moment of the first put, whose fault is `fault`.
fn dropped_at_put(fixture: &Fixture, numbers: std::ops::Range<u64>, fault: Fault) -> impl Store + use<> {
    let inner = Arc::clone(&fixture.store);
    let mut faults = Some(fault).into_iter();
    fixture.with_rule(move |call| {
        if call.method != Method::PutOnce {
            return Fault::Pass;
        }
        for number in numbers.clone() {
            inner.delete(&log().path(number)).now_or_never().expect("no waiting").unwrap();
        }
        faults.next().unwrap_or(Fault::Pass)
    })
}

fn a_log_that_is_gone_during_a_slow_put_is_left_as_it_was(fixture: &Fixture) {
    for fault in [Fault::Slow(Duration::from_secs(31)), Fault::SlowAnswer(Duration::from_secs(31))] {
        fixture.fill(0..3);
        let store = dropped_at_put(fixture, 0..3, fault);
        let mut writer = Writer::new("a");
        let error = fixture.publish(&store, 3, &mut writer).unwrap_err();
        assert_eq!(error.message(), "the table was replaced");
        assert_eq!((writer.replaced, fixture.log()), (vec![3], vec![]), "{fault:?}");
    }
}

fn a_stray_object_is_removed_even_when_it_was_found_by_reading(fixture: &Fixture) {
    fixture.fill(0..3);
    let inner = Arc::clone(&fixture.store);
    let store = fixture.with_rule(move |call| match call.method {
        Method::PutOnce => {
            for number in 0..3 {
                inner.delete(&log().path(number)).now_or_never().expect("no waiting").unwrap();
            }
            Fault::AppliedUnclear
        }
        Method::Get if call.at < Duration::from_secs(100) => Fault::NotAppliedUnclear,
        _ => Fault::Pass,
    });
    let mut writer = Writer::new("a");
    fixture.publish(&store, 3, &mut writer).unwrap_err();
    assert_eq!((writer.replaced, fixture.log()), (vec![3], vec![]));
}

fn somebody_elses_object_in_a_log_that_is_gone_stays(fixture: &Fixture) {
    fixture.fill(0..3);
    // Our put is lost; before it is sent again, the table is dropped and another one has grown past it.
    let inner = Arc::clone(&fixture.store);
    let store = fixture.with_rule(move |call| match call.method {
        Method::PutOnce => {
            inner.delete(&log().path(2)).now_or_never().expect("no waiting").unwrap();
            inner.put(&log().path(3), Bytes::from_static(b"theirs")).now_or_never().expect("no waiting").unwrap();
            Fault::SlowAnswer(Duration::from_secs(40))
        }
        _ => Fault::Pass,
    });
    let mut writer = Writer { after_replaced: Some(4), ..Writer::new("a") };
    assert_at(fixture.publish(&store, 3, &mut writer), 4);
    assert_eq!(writer.lost, [(3, "theirs".to_owned())]);
}

fn a_slow_put_counts_when_its_predecessor_is_still_there(fixture: &Fixture) {
    fixture.fill(0..3);
    let calls = Calls::default();
    let seen = calls.clone();
    let store = fixture.with_rule(move |call| {
        seen.note(call);
        if call.method == Method::PutOnce { Fault::SlowAnswer(Duration::from_secs(31)) } else { Fault::Pass }
    });
    assert_at(fixture.publish(&store, 3, &mut Writer::new("a")), 3);
    assert_eq!(calls.methods(), [Method::Head, Method::PutOnce, Method::Head]);
}

fn a_quick_put_needs_no_second_look(fixture: &Fixture) {
    fixture.fill(0..3);
    let store = dropped_at_put(fixture, 0..0, Fault::SlowAnswer(Duration::from_secs(29)));
    assert_at(fixture.publish(&store, 3, &mut Writer::new("a")), 3);
}

fn a_log_cleaned_while_we_slept_is_followed_at_its_new_end(fixture: &Fixture) {
    // Number 3 was taken by others and cleaned away: absent, and yet not next.
    fixture.fill(40..45);
    let mut writer = Writer { after_replaced: Some(45), ..Writer::new("a") };
    assert_at(fixture.publish(&*fixture.store, 3, &mut writer), 45);
    assert_eq!(writer.replaced, [3]);
    assert_eq!(fixture.log().len(), 6);
}

fn a_log_that_grew_again_to_the_same_length_is_noticed(fixture: &Fixture) {
    fixture.fill(0..3);
    let mut writer = Writer { expected_size: Some(99), ..Writer::new("a") };
    fixture.publish(&*fixture.store, 3, &mut writer).unwrap_err();
    assert_eq!((writer.replaced, fixture.log().len()), (vec![3], 3));
    let mut writer = Writer { expected_size: Some("other 2".len() as u64), ..Writer::new("a") };
    assert_at(fixture.publish(&*fixture.store, 3, &mut writer), 3);
}

fn a_new_log_does_not_begin_before_a_cleaned_one(fixture: &Fixture) {
    fixture.fill(4..6);
    let mut writer = Writer { after_replaced: Some(6), ..Writer::new("a") };
    assert_at(fixture.publish(&*fixture.store, 0, &mut writer), 6);
    assert_eq!(fixture.log().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [4, 5, 6]);
    // A listing that shows number 0 as well is a race, not a cleaned log.
    fixture.fill(0..4);
    assert_at(fixture.publish(&*fixture.store, 0, &mut Writer::new("b")), 7);
}

fn others_that_always_come_first_are_a_conflict_at_the_deadline(fixture: &Fixture) {
    fixture.fill(0..1);
    let inner = Arc::clone(&fixture.store);
    let store = fixture.with_rule(move |call| {
        if call.method == Method::PutOnce {
            inner.put(call.path, Bytes::from_static(b"theirs")).now_or_never().expect("no waiting").unwrap();
            // The clock goes on by requests alone once pauses are over.
            return Fault::Slow(Duration::from_secs(1));
        }
        Fault::Pass
    });
    let mut writer = Writer::new("a");
    let error = fixture.publish(&store, 1, &mut writer).unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Conflict, 75));
    assert!(error.to_string().contains("tries in 900 s, limit 900 s"), "{error}");
    assert!(writer.attempts > 100, "no fixed number of tries: {}", writer.attempts);
    assert!(fixture.log().iter().all(|(_, text)| !text.starts_with("a ")));
}

fn a_log_that_cannot_be_read_is_unavailable_at_the_deadline(fixture: &Fixture) {
    fixture.fill(0..1);
    let store = fixture.with_rule(|call| if call.method == Method::Head { Fault::NotAppliedUnclear } else { Fault::Pass });
    let error = fixture.publish(&store, 1, &mut Writer::new("a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!((fixture.seam().elapsed(), fixture.log().len()), (TIMEOUT, 1));
}

fn a_log_that_may_not_be_read_is_denied_at_once(fixture: &Fixture) {
    fixture.fill(0..1);
    let store = fixture.with_rule(|call| if call.method == Method::Head { Fault::Refused } else { Fault::Pass });
    assert_eq!(fixture.publish(&store, 1, &mut Writer::new("a")).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(fixture.seam().elapsed(), Duration::ZERO);
}

fn an_answer_that_never_comes_is_unknown_and_names_the_number(fixture: &Fixture) {
    fixture.fill(0..1);
    let store = fixture.with_rule(|call| match call.method {
        Method::PutOnce => Fault::AppliedUnclear,
        Method::Get => Fault::NotAppliedUnclear,
        _ => Fault::Pass,
    });
    match fixture.publish(&store, 1, &mut Writer::new("a")) {
        Ok(Published::Unknown { number: 1, error }) => assert_eq!(error.kind(), ErrorKind::Unavailable),
        other => panic!("{other:?}"),
    }
}

fn pauses_grow_and_are_capped(fixture: &Fixture) {
    fixture.fill(0..1);
    let times = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let store = fixture.with_rule(move |call| {
        if call.method == Method::Head {
            seen.lock().unwrap().push(call.at);
            return Fault::NotAppliedUnclear;
        }
        Fault::Pass
    });
    let seam = fixture.seam();
    fixture.run(publish(&store, &log(), 1, &mut Writer::new("a"), TIMEOUT, &seam)).unwrap_err();
    let times = times.lock().unwrap();
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= Duration::from_millis(50), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(5)));
    assert!(pauses.iter().any(|pause| *pause > Duration::from_secs(2)), "they grow: {pauses:?}");
}
