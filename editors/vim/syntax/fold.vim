" Everfold's fold language. Copy editors/vim/ into ~/.vim/ or ~/.config/nvim/.
if exists("b:current_syntax")
  finish
endif

setlocal expandtab shiftwidth=2 softtabstop=2 commentstring=#\ %s

syn keyword foldHead projection version schema
syn keyword foldHead order by log index migrate from to
syn keyword foldHandler when
syn keyword foldStatement let unset delete push keep add remove
syn keyword foldRepeat for
syn keyword foldConditional if then else
syn keyword foldOperatorWord and or not in
syn keyword foldConstant true false null
syn keyword foldView view
syn keyword foldEvent data meta type stream seq position time tenant id
syn keyword foldTodo TODO FIXME contained

syn match foldOperator "??\|[-+]=\|[=!<>]=\|[-+*/%=<>]"
syn match foldNumber "\<\d\+\(\.\d\+\)\?\([eE][-+]\?\d\+\)\?\>"
syn match foldFunction "\<\h\w*\ze("
" A field behind a point is no keyword: the match begins with the point, and so before the keyword.
syn match foldField "\.\s*\h\w*"
" Types may look like keywords too: order.placed, order.*, *
syn match foldHandler "^on\>" nextgroup=foldType,foldString skipwhite
syn match foldHead "^\%(alias\|upcast\)\>" nextgroup=foldType,foldString skipwhite
syn match foldType "[^ ,=#\"]\+" contained nextgroup=foldNextType skipwhite
syn match foldNextType "[,=]" contained nextgroup=foldType,foldString skipwhite
syn region foldString start=+"+ skip=+\\.+ end=+"+ oneline contains=foldEscape
syn match foldEscape +\\\(["\\/bfnrt]\|u\x\{4}\)+ contained
syn match foldComment "#.*$" contains=foldTodo,@Spell
syn match foldTab "\t"

hi def link foldHead PreProc
hi def link foldHandler Keyword
hi def link foldStatement Statement
hi def link foldRepeat Repeat
hi def link foldConditional Conditional
hi def link foldOperatorWord Operator
hi def link foldOperator Operator
hi def link foldConstant Constant
hi def link foldView Keyword
hi def link foldEvent Identifier
hi def link foldNumber Number
hi def link foldFunction Function
hi def link foldField NONE
hi def link foldNextType Operator
hi def link foldType Type
hi def link foldString String
hi def link foldEscape SpecialChar
hi def link foldComment Comment
hi def link foldTodo Todo
hi def link foldTab Error

let b:current_syntax = "fold"
