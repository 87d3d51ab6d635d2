package steps

import (
	"encoding/json"
	"fmt"
	"strings"
)

// transcript is the template function of that name: what a step's agent said and
// did, as text that another vendor's agent can read.
func (x *Executor) transcript(step string) (string, error) {
	var b strings.Builder
	err := x.Events(func(line []byte) error {
		var e struct {
			Step, Type, Content, Role, NativeName, Target, Error, FilePath, ChangeType string
			IsPartial                                                                  bool
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.Step != step {
			return nil
		}
		switch e.Type {
		case "textChunk":
			if e.Role == "assistant" {
				b.WriteString(e.Content)
				if !e.IsPartial {
					b.WriteByte('\n')
				}
			}
		case "toolStarted":
			fmt.Fprintf(&b, "\n[%s %s]\n", e.NativeName, e.Target)
		case "toolCompleted":
			if e.Error != "" {
				fmt.Fprintf(&b, "[failed: %s]\n", e.Error)
			}
		case "fileChanged":
			fmt.Fprintf(&b, "[%s %s]\n", e.ChangeType, e.FilePath)
		}
		return nil
	})
	return strings.TrimSpace(b.String()), err
}
