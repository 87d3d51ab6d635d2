package pipeline

import "slices"

// settleAsk checks the form of the answer, which a person fills in field by field.
func (l *loader) settleAsk(nd *node) {
	if len(nd.step.Output) == 0 {
		return
	}
	form := shape{schema: nd.step.Output}
	if kinds := form.kinds(); len(kinds) != 1 || !slices.Contains([]string{"object", "string", "integer", "number", "boolean"}, kinds[0]) {
		l.fail(nd.keys["output"], "write {type: object, properties: …}, or one of string, integer, number, boolean", "the answer to `ask` must be a form or one value")
	}
}
