package pipeline

// LoadPermissions reads a file that holds what stands under `permissions` in a pipeline,
// and nothing else, as YAML or JSON. The plan has these permissions and no steps. The
// error is an Errors with all mistakes, or says why the file could not be read.
func LoadPermissions(path string) (*Plan, []Warning, error) {
	src, size, err := readRegular(path, MaxFileBytes)
	if err != nil {
		return nil, nil, err
	}
	if size > len(src) {
		return nil, nil, Errors{tooLarge("policy", path, size, MaxFileBytes)}
	}
	return ParsePermissions(path, src)
}

// ParsePermissions is LoadPermissions with the text of the file given. name is the file's
// name in messages and in the places of rules.
func ParsePermissions(name string, src []byte) (*Plan, []Warning, error) {
	l := newLoader(name, src, Options{})
	l.alone = true
	if root := l.document(); root != nil {
		l.plan.Permissions = l.permissions(root)
	}
	if errs := l.mistakes(); len(errs) > 0 {
		return nil, nil, errs
	}
	return l.plan, l.sortedWarnings(), nil
}
