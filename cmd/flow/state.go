package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"flow/state"
)

func (a *app) stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Check, repair, move and tidy up what flow keeps of runs",
		Long: "state looks after the state directory. `check` finds what is damaged, `repair` makes a new run of what is\n" +
			"whole, `reindex` writes the list of runs anew, `gc` removes old runs, and `export` and `import` take a run\n" +
			"to another machine. docs/state.md says what the files are.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.stateCheckCommand(), a.stateRepairCommand(), a.stateReindexCommand(), a.stateGCCommand(), a.stateExportCommand(), a.stateImportCommand())
	return cmd
}

func (a *app) stateReindexCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reindex",
		Short: "Write the list of runs anew from the runs themselves",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.store()
			if err != nil {
				return err
			}
			if err := s.Reindex(); err != nil {
				return err
			}
			runs, err := s.Runs(0)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%s listed\n", plural(len(runs), "run"))
			return err
		},
	}
}

// ids are the runs that a command line names, or all.
func ids(s *state.Store, names []string) ([]string, error) {
	if len(names) == 0 {
		return s.IDs()
	}
	list := make([]string, len(names))
	for i, name := range names {
		id, err := s.Resolve(name)
		if err != nil {
			return nil, err
		}
		list[i] = id
	}
	return list, nil
}
