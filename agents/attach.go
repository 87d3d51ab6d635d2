package agents

// An Attacher is an Adapter whose CLI lets a person go on in a session, at a terminal.
type Attacher interface {
	// Attach says how to start the CLI's own terminal interface in the session r.Session.ID,
	// where r is the request of a turn in it. Standard input is the person's.
	Attach(r Request) Command
}
