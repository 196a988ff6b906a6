autocmd BufRead,BufNewFile *.fold setfiletype fold
