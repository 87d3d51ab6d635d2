package pipeline

// Fence puts text between two lines that it cannot contain, as the template function
// `fence` does. The error says that the text is longer than a prompt may be.
func Fence(text string) (string, error) { return fence(text) }
