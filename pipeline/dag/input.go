package dag

// Input returns what a template sees of the step at path; the zero Input if there is no
// such step. What it holds is shared, and read only.
func (m *Machine) Input(path string) Input {
	if n := m.find(path); n != nil {
		return *n.input()
	}
	return Input{}
}

// input returns what others see of n. What has ended is put together once, or the items of
// a list that each look at another list would cost their product.
func (n *node) input() *Input {
	if n.inner != nil && n.inner.seen != nil {
		return n.inner.seen
	}
	in := &Input{Path: n.path, Status: n.status(), Result: n.result}
	if n.inner == nil {
		return in
	}
	switch s := n.inner; n.form {
	case Group:
		in.Steps = make(map[string]Input, len(s.nodes))
		for _, c := range s.nodes {
			in.Steps[c.step.ID] = *c.input()
		}
	case Each:
		in.Items = inputs(s.nodes)
	case Contest:
		candidates := s.nodes
		if last := s.last(); last.judge {
			candidates = candidates[:last.index]
			in.Steps = map[string]Input{last.step.ID: *last.input()}
		}
		in.Items = inputs(candidates)
	case Loop:
		in.round(s)
	case Single:
	}
	if n.out.status != "" {
		n.inner.seen = in
	}
	return in
}

// round lets in show the last round of the loop s.
func (in *Input) round(s *scope) {
	last := s.last().input()
	in.Steps, in.Items, in.Rounds = last.Steps, last.Items, len(s.nodes)
	if in.Result == nil {
		in.Result = last.Result
	}
}

func inputs(nodes []*node) []Input {
	all := make([]Input, len(nodes))
	for i, n := range nodes {
		all[i] = *n.input()
	}
	return all
}

// forget makes the inputs of n and of what is around it be put together again.
func (n *node) forget() {
	for ; n != nil; n = n.scope.owner {
		if n.inner != nil {
			n.inner.seen = nil
		}
	}
}
