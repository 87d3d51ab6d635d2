package pipeline

import "fmt"

// TranscriptKey is where Data may hold a func(step string) (string, error) that the
// function `transcript` calls in this rendering: which step an id means depends on where
// in the run the template is rendered. No template can name it.
const TranscriptKey = "\x00transcript"

// transcriptFunction finds in the data what to call, or calls fallback.
func transcriptFunction(fallback func(string) (string, error)) func(Data, string) (string, error) {
	return func(d Data, step string) (string, error) {
		if f, ok := d[TranscriptKey].(func(string) (string, error)); ok {
			return f(step)
		}
		if fallback == nil {
			return "", fmt.Errorf("the transcript of %q cannot be read here", shorten(step))
		}
		return fallback(step)
	}
}

// controlTemplates calls f for the templates of loops, calls, contests, questions and
// workspaces of a step.
func controlTemplates(s *Step, f func(Text, mode)) {
	one := func(t *Text, m mode) {
		if t != nil {
			f(*t, m)
		}
	}
	one(s.Ask, modeText)
	if s.Foreach != nil {
		one(s.Foreach.List, modeList)
	}
	if s.Repeat != nil {
		f(s.Repeat.Until, modeCondition)
	}
	if s.Isolation != nil {
		one(s.Isolation.Base, modeText)
		one(s.Isolation.Setup, modeScript)
	}
	if s.Contest != nil && s.Contest.Judge != nil {
		one(s.Contest.Judge.Prompt, modeText)
	}
	values := s.Set
	if s.Call != nil {
		values = s.Call.With
	}
	for _, v := range values {
		f(v.Value, modeValue)
	}
}

// List evaluates a `foreach`, Foreach.List. Anything but a list of at most MaxItems
// elements is an Error with the place inside the YAML.
func (r *Renderer) List(t Text, d Data) ([]any, error) {
	e := execution{mode: modeList}
	if err := r.run(t, d, &e); err != nil {
		return nil, err
	}
	items, err := elements(e.value)
	switch {
	case err != nil:
		return nil, textError(r.file, t, 0, "name a list; for the lines of a text write: lines …", "`foreach` over what is no list, but "+describeKind(e.value))
	case len(items) > MaxItems:
		return nil, textError(r.file, t, 0, "split the list", fmt.Sprintf("`foreach` has %d items; the limit is %d", len(items), MaxItems))
	}
	if err := measure(items); err != nil {
		return nil, textError(r.file, t, 0, "", err.Error())
	}
	return items, nil
}

// describeKind is what an author would call a value that is no list.
func describeKind(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case map[string]any:
		return "a mapping"
	case bool:
		return "true or false"
	case int, int64, float64:
		return "a number"
	}
	return kindName(v)
}
