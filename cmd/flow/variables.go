package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagVariables are the flags that a variable can give a value, for every command that has
// them: FLOW_QUIET for --quiet. A flag on the command line goes before it.
func flagVariables() []string {
	return []string{"state-dir", "log-level", "quiet", "no-input", "yes", "ask-timeout", "budget-usd", "budget-tokens"}
}

// variableOf is the name of the variable of a flag.
func variableOf(flag string) string {
	return "FLOW_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// configuredFlags are the flags of single commands that the user's configuration can set.
// The two of all commands are looked up where they are needed: see program.
func configuredFlags() []string { return []string{"quiet", "no-input"} }

// setFlags gives the flags that are not on a command line the values that the environment
// or the user's configuration has, and notes where each comes from.
func (a *app) setFlags(cmd *cobra.Command) error {
	a.origins = map[string]string{}
	for _, name := range flagVariables() {
		f := cmd.Flags().Lookup(name)
		switch {
		case f == nil:
		case f.Changed:
			a.origins[name] = "--" + name
		case a.getenv(variableOf(name)) != "":
			if err := setByVariable(f, a.getenv(variableOf(name))); err != nil {
				return err
			}
			a.origins[name] = variableOf(name)
		case slices.Contains(configuredFlags(), name):
			if err := a.setByConfig(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func setByVariable(f *pflag.Flag, value string) error {
	if f.Value.Set(value) == nil {
		return nil
	}
	hint := "a number"
	switch f.Value.Type() {
	case "bool":
		hint = "true or false"
	case "duration":
		hint = "a time such as 30m"
	}
	return usageError{fmt.Errorf("%s=%q is no value of --%s\nhint: give %s, or unset it", variableOf(f.Name), value, f.Name, hint)}
}

func (a *app) setByConfig(f *pflag.Flag) error {
	value, origin, err := a.program(f.Name, "")
	if err == nil && origin != "" {
		err = f.Value.Set(value) // it has been checked
	}
	return err
}
