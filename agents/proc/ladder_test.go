package proc

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestClimb(t *testing.T) {
	quick := []Rung{{syscall.SIGHUP, time.Second}}
	tests := []struct {
		name   string
		ladder []Rung
		yields string // the signal the process ends at; "" is never
		want   []string
	}{
		{"ends at the first signal", defaultLadder(), "INT", []string{"0s INT"}},
		{"ends at the second", defaultLadder(), "TERM", []string{"0s INT", "10s TERM"}},
		{"ignores all", defaultLadder(), "", []string{"0s INT", "10s TERM", "15s kill"}},
		{"a ladder of its own", quick, "", []string{"0s HUP", "1s kill"}},
		{"an empty ladder kills", []Rung{}, "", []string{"0s kill"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				cancelled := time.Now().Add(time.Hour)
				ended := make(chan exit, 1)
				var got []string
				say := func(what string) {
					got = append(got, fmt.Sprint(time.Since(cancelled), " ", what))
					if what == test.yields || what == "kill" {
						ended <- exit{Code: 7}
					}
				}
				e := climb(ctx, ended, test.ladder,
					func(r Rung) { say(signalName(r.Signal)) }, func() { say("kill") })
				if !slices.Equal(got, test.want) || e.Code != 7 {
					t.Errorf("climb: %q, code %d; want %q, 7", got, e.Code, test.want)
				}
			})
		})
	}
}

func TestClimbWithoutCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan exit, 1)
		time.AfterFunc(6*time.Hour, func() { ended <- exit{Code: 3} })
		e := climb(t.Context(), ended, defaultLadder(), nil, nil)
		if e.Code != 3 {
			t.Errorf("code %d", e.Code)
		}
	})
}
