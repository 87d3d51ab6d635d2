package gemini

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"path/filepath"

	"flow/agents"
)

// The CLI keeps a session in a file of its home, in a directory for each working
// directory. Resumed as it is, such a file breaks the conversation: see mend. In a home
// of the run's own flow mends the file before every turn that goes on in it. A fork is
// a copy of the file under a new id, which the CLI then resumes.

// projects is where the CLI keeps what belongs to working directories, within its home.
const projects = ".gemini/tmp"

// project is the directory of dir within projects. The CLI would choose a name itself;
// it takes ours when it finds the file of markerFile there.
func project(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "flow-" + hex.EncodeToString(sum[:8])
}

// markerFile tells the CLI which working directory a directory of projects is for.
func markerFile(r agents.Request) agents.File {
	return agents.File{Path: filepath.Join(r.Home, projects, project(r.Dir), ".project_root"), Data: []byte(r.Dir)}
}

// preparation brings the files of a session into the state that the turn needs, nil
// when it begins a new one.
func preparation(r agents.Request) *agents.Preparation {
	id := r.Session.ID
	switch r.Session.Mode {
	case agents.SessionResume:
	case agents.SessionFork:
		id = r.Session.Parent
	default:
		return nil
	}
	if !ownHome(r) {
		return nil
	}
	return &agents.Preparation{
		Read: path.Join(projects, "*", "chats", "session-*-"+id[:8]+".jsonl"),
		Make: func(files []agents.File) []agents.File {
			if r.Session.Mode == agents.SessionFork {
				return append(files, forked(r, files)...)
			}
			return resumable(r, files)
		},
	}
}

// resumable returns files with the session to be resumed mended, and in one file where
// this turn's CLI looks for it. The CLI may have left a second one, empty but for its
// head, when it resumed the session before; and the session may have begun in another
// directory.
func resumable(r agents.Request, files []agents.File) []agents.File {
	session, others := pick(files, r.Session.ID)
	if session == nil {
		return files
	}
	name := chatName(r, filepath.Base(session.Path))
	return append(others, agents.File{Path: chatFile(r, name), Data: mend(session.Data, r.Session.ID)})
}

// forked is the copy of the parent's session, if that is among files.
func forked(r agents.Request, files []agents.File) []agents.File {
	parent, _ := pick(files, r.Session.Parent)
	if parent == nil {
		return nil
	}
	name := filepath.Base(parent.Path)
	name = name[:len(name)-len(r.Session.Parent[:8]+".jsonl")] + r.Session.ID[:8] + ".jsonl"
	return []agents.File{{Path: chatFile(r, chatName(r, name)), Data: mend(parent.Data, r.Session.ID)}}
}

// chatName is the name of the file of a session that is gone on with. Its beginning is the
// minute in which the session began. Over ACP the CLI begins a new session of the same id
// before it loads the old one: within that minute it would do so in the old one's file, and
// lose it.
func chatName(r agents.Request, name string) string {
	if !talks(r) {
		return name
	}
	return "session-2000-01-01T00-00-" + r.Session.ID[:8] + ".jsonl"
}

func chatFile(r agents.Request, name string) string {
	return filepath.Join(r.Home, projects, project(r.Dir), "chats", name)
}

// pick returns the session of an id among files, and the files of other sessions, which
// may share the beginning of its id. Of two files the larger is the session.
func pick(files []agents.File, id string) (session *agents.File, others []agents.File) {
	for i, f := range files {
		switch {
		case sessionID(f.Data) != id:
			others = append(others, f)
		case session == nil || len(f.Data) > len(session.Data):
			session = &files[i]
		}
	}
	return session, others
}
