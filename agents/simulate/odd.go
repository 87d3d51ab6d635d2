package simulate

// Oddities are what a two-way agent does that no client expects, in this turn.
type oddities struct {
	asks      bool // for every call, whatever the flags say
	question  bool // asks the user something
	unknown   bool // sends a request of a kind that nobody knows
	duplicate bool // sends every request twice
	id0       bool // numbers its requests from 0, as text
	dies      bool // while a request waits for its answer
	withdraws bool // takes its requests back
	late      bool // says something after the end
}

// An asker is a voice that can ask its client something.
type asker interface {
	voice
	question() // asks the user to choose, and says what came of it
	unknown()  // sends a request of an unknown kind, and says what came of it
}

// inquire sends the requests of the script that are about no call. It also reads what
// the script has of oddities.
func (t *turn) inquire(v voice) (int, bool, error) {
	for _, item := range []struct {
		when when
		into *bool
	}{
		{t.script.asking, &t.odd.asks},
		{t.script.questioning, &t.odd.question},
		{t.script.inventing, &t.odd.unknown},
		{t.script.repeating, &t.odd.duplicate},
		{t.script.zero, &t.odd.id0},
		{t.script.dying, &t.odd.dies},
		{t.script.withdrawing, &t.odd.withdraws},
		{t.script.belated, &t.odd.late},
	} {
		holds, err := t.holds(item.when)
		if err != nil {
			return 0, true, err
		}
		*item.into = holds
	}
	if a, ok := v.(asker); ok {
		if t.odd.question {
			a.question()
		}
		if t.odd.unknown && t.interrupted() == nil {
			a.unknown()
		}
	}
	return 0, false, nil
}

// simulatedQuestion is what agents ask the user.
const simulatedQuestion = "Which of the two?"

// unknownAnswered says what came of a request of an unknown kind.
func unknownAnswered(problem string) string {
	if problem == "" {
		return "The unknown request was answered."
	}
	return "The unknown request was refused: " + problem
}
