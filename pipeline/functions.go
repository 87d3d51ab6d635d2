package pipeline

import (
	"maps"

	sprig "github.com/go-task/slim-sprig/v3"
)

// Function is a template function as the documentation shows it.
type Function struct {
	Name      string
	Signature string
	Doc       string
	call      any
}

// Functions lists what templates can call besides the functions built into
// text/template, by topic. They are slim-sprig's names and meanings, with four
// differences: nothing reads the environment, network, clock or randomness; nothing
// returns more than MaxRenderedBytes or MaxValues; what cannot be converted or
// decoded is an error, not zero; and no function changes a value in place.
func Functions() []Function {
	lib := sprig.GenericFuncMap()
	var all []Function
	for _, topic := range [][]Function{ownFunctions(), textFunctions(lib), regexFunctions(lib), numberFunctions(), listFunctions(lib), dictFunctions(), valueFunctions(lib), replacedBuiltins(), scriptFunctions()} {
		all = append(all, topic...)
	}
	return all
}

// functionMap is the table for text/template, every text result bounded.
func functionMap() map[string]any {
	m := map[string]any{}
	for _, f := range Functions() {
		m[f.Name] = f.call
	}
	return m
}

// knownFunctions are the names that any template may call, for the parser.
func knownFunctions() map[string]any {
	m := functionMap()
	for _, f := range scriptFunctions() {
		delete(m, f.Name)
	}
	maps.Copy(m, map[string]any{
		"and": true, "or": true, "not": true, "len": true, "slice": true, "eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true,
	})
	return m
}

func ownFunctions() []Function {
	return []Function{
		{"file", "file PATH", "The text of a file. A literal path is below the directory of the pipeline and is read when the pipeline is loaded; a computed one when the template is rendered.", unavailable("file")},
		{"transcript", "transcript STEP", "What the agent of a step said and did, as readable text. The name is a literal.", unavailable("transcript")},
		{"fence", "fence TEXT", "TEXT between two lines that it cannot contain, to mark it as data in a prompt.", fence},
		{"json", "json VALUE", "VALUE as JSON on one line; <, > and & stay as they are.", toJSON},
		{"toJson", "toJson VALUE", "The same as json.", toJSON},
		{"toPrettyJson", "toPrettyJson VALUE", "VALUE as JSON, indented by two spaces.", toPrettyJSON},
		{"fromJson", "fromJson TEXT", "The value that TEXT holds as JSON. Anything else is an error.", fromJSON},
		{"lines", "lines TEXT", "The lines of TEXT as a list, without their ends.", lines},
		{"truncate", "truncate N TEXT", "At most N characters of TEXT; what was cut off is counted at the end.", truncate},
		{"shquote", "shquote VALUE", "VALUE quoted for a POSIX shell. In `run` values are passed safely without it.", shquote},
		{"fail", "fail MESSAGE", "Ends the rendering with an error.", fail},
	}
}

func textFunctions(lib map[string]any) []Function {
	return []Function{
		{"trim", "trim TEXT", "TEXT without white space at its ends.", lib["trim"]},
		{"trimAll", "trimAll CHARS TEXT", "TEXT without any of CHARS at its ends.", lib["trimAll"]},
		{"trimPrefix", "trimPrefix PREFIX TEXT", "TEXT without PREFIX.", lib["trimPrefix"]},
		{"trimSuffix", "trimSuffix SUFFIX TEXT", "TEXT without SUFFIX.", lib["trimSuffix"]},
		{"upper", "upper TEXT", "TEXT in upper case.", bounded1(upper)},
		{"lower", "lower TEXT", "TEXT in lower case.", bounded1(lower)},
		{"title", "title TEXT", "TEXT with each word's first letter in upper case.", lib["title"]},
		{"contains", "contains PART TEXT", "Whether PART stands in TEXT.", lib["contains"]},
		{"hasPrefix", "hasPrefix PREFIX TEXT", "Whether TEXT begins with PREFIX.", lib["hasPrefix"]},
		{"hasSuffix", "hasSuffix SUFFIX TEXT", "Whether TEXT ends with SUFFIX.", lib["hasSuffix"]},
		{"replace", "replace OLD NEW TEXT", "TEXT with every OLD replaced by NEW.", replace},
		{"repeat", "repeat N TEXT", "TEXT N times.", repeat},
		{"substr", "substr START END TEXT", "The characters from START up to END, counted from 0; a negative END is the end.", substr},
		{"quote", "quote VALUE…", "Each VALUE in double quotes, with Go's escapes.", bounded(quoteAll)},
		{"squote", "squote VALUE…", "Each VALUE in single quotes, without escapes.", bounded(squoteAll)},
		{"cat", "cat VALUE…", "The VALUEs with a space between them.", bounded(cat)},
		{"indent", "indent N TEXT", "Every line of TEXT moved right by N spaces, at most 1000.", indent},
		{"nindent", "nindent N TEXT", "The same, on a new line.", nindent},
		{"join", "join SEP LIST", "The elements of LIST with SEP between them.", join},
		{"splitList", "splitList SEP TEXT", "The parts of TEXT between SEPs, as a list.", splitList},
		{"b64enc", "b64enc TEXT", "TEXT in base64.", bounded1(base64Encode)},
		{"b64dec", "b64dec TEXT", "The text that TEXT holds in base64. Anything else is an error.", base64Decode},
		{"sha256sum", "sha256sum TEXT", "The SHA-256 of TEXT in hexadecimal.", lib["sha256sum"]},
		{"base", "base PATH", "The last element of a path.", lib["base"]},
		{"dir", "dir PATH", "A path without its last element.", lib["dir"]},
		{"ext", "ext PATH", "The extension of a path, with its dot.", lib["ext"]},
		{"clean", "clean PATH", "The shortest path that means the same.", lib["clean"]},
		{"isAbs", "isAbs PATH", "Whether a path begins at the root.", lib["isAbs"]},
	}
}

func regexFunctions(lib map[string]any) []Function {
	return []Function{
		{"regexMatch", "regexMatch RE TEXT", "Whether RE (RE2 syntax) matches in TEXT.", lib["mustRegexMatch"]},
		{"regexFind", "regexFind RE TEXT", "The first match, or the empty text.", lib["mustRegexFind"]},
		{"regexFindAll", "regexFindAll RE TEXT N", "The first N matches as a list; -1 for all.", lib["mustRegexFindAll"]},
		{"regexReplaceAll", "regexReplaceAll RE TEXT NEW", "TEXT with every match replaced; $1 or ${name} stand for groups.", regexReplaceAll},
		{"regexReplaceAllLiteral", "regexReplaceAllLiteral RE TEXT NEW", "The same, NEW taken as it is.", regexReplaceAllLiteral},
		{"regexSplit", "regexSplit RE TEXT N", "At most N parts of TEXT between matches; -1 for all.", lib["mustRegexSplit"]},
		{"regexQuoteMeta", "regexQuoteMeta TEXT", "An RE that matches TEXT itself.", bounded1(quoteMeta)},
	}
}

func numberFunctions() []Function {
	return []Function{
		{"int", "int VALUE", "VALUE as a whole number; a fraction is cut off. Text that is no number is an error.", toInt},
		{"int64", "int64 VALUE", "The same as int.", toInt},
		{"atoi", "atoi TEXT", "The same as int.", toInt},
		{"float64", "float64 VALUE", "VALUE as a number.", toFloat},
		{"add", "add N…", "The sum of whole numbers.", add},
		{"add1", "add1 N", "N + 1.", add1},
		{"sub", "sub A B", "A - B.", sub},
		{"mul", "mul A N…", "The product of whole numbers.", mul},
		{"div", "div A B", "A / B, cut to a whole number.", div},
		{"mod", "mod A B", "The rest of A / B.", mod},
		{"max", "max A N…", "The largest.", largest},
		{"min", "min A N…", "The smallest.", smallest},
		{"ceil", "ceil X", "The next whole number from X upwards.", ceil},
		{"floor", "floor X", "The next whole number from X downwards.", floor},
		{"round", "round X DIGITS", "X with that many digits after the point.", round},
		{"until", "until N", "The list 0 … N-1; at most MaxValues.", until},
		{"untilStep", "untilStep START STOP STEP", "The list from START up to, without, STOP.", untilStep},
		{"seq", "seq FIRST LAST", "The list from FIRST to LAST, both included.", seq},
	}
}

func listFunctions(lib map[string]any) []Function {
	return []Function{
		{"list", "list VALUE…", "A list.", list},
		{"first", "first LIST", "The first element; null for an empty list.", lib["mustFirst"]},
		{"last", "last LIST", "The last element; null for an empty list.", lib["mustLast"]},
		{"rest", "rest LIST", "All but the first.", lib["mustRest"]},
		{"initial", "initial LIST", "All but the last.", lib["mustInitial"]},
		{"append", "append LIST VALUE", "A new list with VALUE at the end.", appendTo},
		{"prepend", "prepend LIST VALUE", "A new list with VALUE in front.", prependTo},
		{"concat", "concat LIST…", "The lists one behind the other.", concat},
		{"reverse", "reverse LIST", "A new list, last element first.", lib["mustReverse"]},
		{"uniq", "uniq LIST", "The elements, each once. At most 2000.", uniq},
		{"without", "without LIST VALUE…", "The elements that are not among the VALUEs.", lib["mustWithout"]},
		{"compact", "compact LIST", "The elements that are not empty.", lib["mustCompact"]},
		{"has", "has VALUE LIST", "Whether VALUE is an element.", lib["mustHas"]},
		{"chunk", "chunk N LIST", "The elements in lists of N.", lib["mustChunk"]},
		{"sortAlpha", "sortAlpha LIST", "The elements as texts, sorted.", lib["sortAlpha"]},
	}
}

func dictFunctions() []Function {
	return []Function{
		{"dict", "dict KEY VALUE…", "A dict of texts to values.", dict},
		{"get", "get DICT KEY", "The value, or the empty text when there is none.", get},
		{"hasKey", "hasKey DICT KEY", "Whether there is a value.", hasKey},
		{"keys", "keys DICT", "The keys, sorted.", keys},
		{"values", "values DICT", "The values in the order of keys.", values},
		{"pick", "pick DICT KEY…", "A new dict with these keys only.", pick},
		{"omit", "omit DICT KEY…", "A new dict without these keys.", omit},
		{"dig", "dig KEY… DEFAULT DICT", "The value under nested keys, or DEFAULT.", dig},
	}
}

func valueFunctions(lib map[string]any) []Function {
	return []Function{
		{"default", "default VALUE X", "X, or VALUE when X is empty: null, false, 0, or nothing in it.", lib["default"]},
		{"empty", "empty X", "Whether X is empty.", lib["empty"]},
		{"coalesce", "coalesce X…", "The first that is not empty.", lib["coalesce"]},
		{"all", "all X…", "Whether none is empty.", lib["all"]},
		{"any", "any X…", "Whether one is not empty.", lib["any"]},
		{"ternary", "ternary YES NO CONDITION", "YES when CONDITION is true, else NO.", lib["ternary"]},
		{"toString", "toString VALUE", "VALUE as it would be printed.", asText},
		{"kindOf", "kindOf VALUE", "What VALUE is: string, int64, float64, bool, slice, map or invalid.", lib["kindOf"]},
		{"deepEqual", "deepEqual A B", "Whether two values are the same through and through.", lib["deepEqual"]},
	}
}

// replacedBuiltins are functions of text/template that could return anything of
// any size, or nothing for a missing key.
func replacedBuiltins() []Function {
	return []Function{
		{"index", "index VALUE KEY…", "The element of a list or dict. A missing key is an error.", index},
		{"print", "print VALUE…", "The VALUEs as text, with spaces between those that are not text.", bounded(printAll)},
		{"println", "println VALUE…", "The VALUEs with spaces between them and a line end.", bounded(printLine)},
		{"printf", "printf FORMAT VALUE…", "Text by Go's formats. Widths have at most three digits.", printf},
		{"html", "html VALUE…", "The VALUEs escaped for HTML.", bounded(htmlEscape)},
		{"js", "js VALUE…", "The VALUEs escaped for JavaScript.", bounded(jsEscape)},
		{"urlquery", "urlquery VALUE…", "The VALUEs escaped for the query of a URL.", bounded(urlEscape)},
		{"call", "call", "Not available: there are no functions in the data.", unavailable("call")},
	}
}

// leftOut reports whether slim-sprig has a function of that name.
func leftOut(name string) bool {
	_, ok := sprig.GenericFuncMap()[name]
	return ok
}
